"""The Lease by which agents know that the rules of a node hold, and how it ends."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

from msgspec.structs import replace

from hanse.features.networks.lookups import needs_no_guard
from hanse.kube.client import Client
from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from hanse.kube.lease import format_micro_time, lease_patch, new_lease
from hanse.kube.optional_reads import read_or_none
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.core import Node
from hanse.model.kinds.networks import Network
from hanse.model.naming import GUARDS_NAMESPACE
from hanse.model.objects import OwnerReference
from hanse.model.snapshot import Snapshot

log = logging.getLogger(__name__)

DURATION_SECONDS = 60
"""How long rules count after the last renewal: a guard may be replaced within that."""
RENEWAL_SECONDS = 20.0
CHECK_SECONDS = 1.0
RETRY_SECONDS = 5.0
POLICIES_CHECKS = 60
"""How often a guard that goes for good looks whether policies are there, before it goes."""
ENFORCED_SECONDS = 5.0
"""How long network plugins may take to enforce policies that were written."""


class RulesState(Enum):
    """What is known of the rules of a node."""

    HOLD = "Hold"
    """They are in the kernel and follow the cluster."""
    OLD = "Old"
    """They are in the kernel, as they were: what was said of them counts for its time."""
    BROKEN = "Broken"
    """There are none, or packets bypass them."""


class GuardLease:
    """Renews the Lease of a node while its rules hold, and deletes it when they do not."""

    def __init__(
        self,
        client: Client,
        node: str,
        boot: str,
        clock: Clock,
        snapshot: Callable[[], Snapshot],
        state: Callable[[], RulesState],
    ) -> None:
        """`node` names the Lease, whose holder is `boot`; `state` says whether rules hold.

        Nothing is sent. Needs a running loop: until DURATION_SECONDS from now a Lease of an earlier
        guard counts.
        """
        self._client = client
        self._node = node
        self._clock = clock
        self._snapshot = snapshot
        self._state = state
        self._boot = boot
        self._known: Lease | None = None
        self._deleted = False
        self._ended = False
        self._lock = asyncio.Lock()
        self._due = 0.0
        """The loop's time of the next renewal."""
        self._counts_until = asyncio.get_running_loop().time() + DURATION_SECONDS
        """The loop's time when the last renewal, by any guard, counts no longer."""

    async def run(self) -> None:
        """Follow the state of the rules every second until cancelled; the Lease stays when it ends.

        Failures of writes are not raised, and tried again; all but conflicts are logged.
        """
        while True:
            pause = CHECK_SECONDS
            try:
                async with asyncio.timeout(RENEWAL_SECONDS), self._lock:
                    await self._follow()
            except (Conflict, AlreadyExists):  # somebody else wrote it: read it again
                self._known = None
            except (KubeError, TimeoutError) as error:
                self._known, pause = None, RETRY_SECONDS
                log.warning("the Lease cannot be written", extra={"why": str(error)})
            await asyncio.sleep(pause)

    async def end(self) -> None:
        """Delete the Lease for good, and wait until agents say that policies isolate networks.

        After POLICIES_CHECKS it returns nevertheless, with a warning. A Lease that cannot be
        deleted has to expire first. It does not wait where Networks are listed and there are none.
        """
        self._ended = True
        try:
            async with asyncio.timeout(RENEWAL_SECONDS), self._lock:
                await self._delete()
        except (KubeError, TimeoutError) as error:
            log.warning("the Lease cannot be deleted", extra={"why": str(error)})
        rest = self._counts_until - asyncio.get_running_loop().time()
        if rest > 0 and any(self._networks()):
            await asyncio.sleep(rest)
        for _ in range(POLICIES_CHECKS):
            if self._is_dispensable():
                break
            await asyncio.sleep(CHECK_SECONDS)
        else:
            log.warning("no agent says that policies isolate networks; the rules go nevertheless")
        if any(self._networks()):
            await asyncio.sleep(ENFORCED_SECONDS)

    async def _follow(self) -> None:
        """While rules HOLD renew the Lease if due; if BROKEN delete it; if OLD leave it.

        Nothing after `end`.
        """
        if self._ended:
            return
        match self._state():
            case RulesState.HOLD:
                if asyncio.get_running_loop().time() >= self._due:
                    await self._renew()
            case RulesState.OLD:
                pass
            case RulesState.BROKEN:
                if not self._deleted:
                    await self._delete()

    async def _renew(self) -> None:
        """Create or patch the Lease with `boot` as holder and now as renewTime; acquireTime stays.

        Raises `KubeError`. Sets when the next renewal is due, and until when the Lease counts.
        """
        if self._known is None:
            self._known = await read_or_none(self._client, Lease, self._node, GUARDS_NAMESPACE)
        now = format_micro_time(self._clock.now())
        before = self._known.spec if self._known is not None else LeaseSpec()
        spec = LeaseSpec(
            holder_identity=self._boot,
            lease_duration_seconds=DURATION_SECONDS,
            acquire_time=before.acquire_time or now,
            renew_time=now,
            lease_transitions=before.lease_transitions,
        )
        started = asyncio.get_running_loop().time()
        self._counts_until = started + DURATION_SECONDS + RENEWAL_SECONDS
        if self._known is None:
            self._known = await self._client.create(self._owned(spec))
        else:
            change = lease_patch(self._known, spec)
            self._known = await self._client.patch(Lease, self._node, GUARDS_NAMESPACE, change)
        self._deleted = False
        self._counts_until = asyncio.get_running_loop().time() + DURATION_SECONDS
        self._due = started + RENEWAL_SECONDS

    def _owned(self, spec: LeaseSpec) -> Lease:
        """The Lease to create, owned by its Node, if that is known: it is deleted with it.

        Nothing is sent.
        """
        snapshot, lease = self._snapshot(), new_lease(GUARDS_NAMESPACE, self._node, spec)
        node = snapshot.get(snapshot.local, Node, self._node)
        if node is None:
            return lease
        kind, uid = Node.kind, node.metadata.uid
        owner = OwnerReference(
            api_version=kind.api_version, kind=kind.name, name=self._node, uid=uid
        )
        return replace(lease, metadata=replace(lease.metadata, owner_references=(owner,)))

    async def _delete(self) -> None:
        """Delete the Lease, if there is one; raises `KubeError`. A later renewal is due at once."""
        self._known, self._due = None, 0.0
        with suppress(NotFound):
            await self._client.delete(Lease, self._node, GUARDS_NAMESPACE)
        self._deleted, self._counts_until = True, 0.0

    def _networks(self) -> list[Network]:
        """The Networks of this cluster that are known now."""
        snapshot = self._snapshot()
        return list(snapshot.all(snapshot.local, Network))

    def _is_dispensable(self) -> bool:
        """Whether all networks are known, and agents say of each that policies isolate it.

        True without networks, also if the kind is not served.
        """
        snapshot = self._snapshot()
        listed = snapshot.listed_or_unserved(snapshot.local, Network)
        return listed and all(map(needs_no_guard, self._networks()))
