"""The guard of a node: keeps its nftables rules as the cluster's networks want them."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from hanse.app.cni import NodePlugin
from hanse.app.cni_folders import CniFolders
from hanse.app.guard_lease import GuardLease, RulesState
from hanse.app.guard_metrics import GuardMetrics
from hanse.app.guard_removal import open_rules, remove_all, remove_installed_plugin
from hanse.features.networks.cni import KnownPod, PodRef, is_prepared
from hanse.features.networks.guard.facts import (
    ClusterFacts,
    Owner,
    address_owner,
    cluster_facts,
    concerns_rules,
    pod_addresses,
)
from hanse.features.networks.guard.ruleset import TABLE, Ruleset, build_ruleset
from hanse.features.networks.guard.transaction import (
    ElementChange,
    difference,
    has_families_for,
    replacement,
    set_owners,
)
from hanse.features.networks.guard.vpcs import vpc_facts
from hanse.features.networks.guard.watches import GUARD_WATCHES
from hanse.features.networks.lookups import pod_network, tenant_namespaces
from hanse.health import Readiness
from hanse.kube.clock import Clock, WallClock
from hanse.kube.errors import Unreachable
from hanse.kube.optional_reads import read_or_none
from hanse.kube.transport import Transport
from hanse.model.facts import Facts, Role
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.kinds.networks import Network
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Change, ObjectChange, Snapshot
from hanse.providers.nftables import NftablesError, bridge_bypass
from hanse.runtime.api import ClusterClient
from hanse.runtime.informers import ClusterInformers

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
"""How often it is checked that nobody has removed the rules."""
RETRY_SECONDS = 1.0


class Rules(Protocol):
    """Where rules are applied: all commands of a call, or none."""

    def run(self, commands: str) -> str:
        """Run nftables commands as one transaction, and return their output.

        Raises `NftablesError`.
        """
        ...

    def change(self, table: str, changes: Sequence[ElementChange]) -> None:
        """Change elements of a table's sets, all or none; raises `NftablesError`."""
        ...


class GuardSettings(Struct, frozen=True):
    """The node that is guarded."""

    node: str
    pod_ranges: tuple[str, ...] = ()
    """Its pod ranges, where its Node does not have them."""
    cni: CniFolders | None = None
    """Where the CNI plugin is installed, if it is."""
    boot: str = ""
    """The boot id of the machine."""


class Guard:
    """Follows the cluster and changes the rules of this machine; pods in no network reach nothing.

    Until everything is listed, rules of an earlier guard stay; without any, the node's pod ranges
    are closed. While the API server is away, the rules stay as they are.
    """

    def __init__(
        self,
        settings: GuardSettings,
        rules: Rules,
        snapshot: Callable[[], Snapshot],
        bypass: Callable[[], str] = bridge_bypass,
    ) -> None:
        """No rule is written until `run`; `bypass` says why packets bypass them, "" if none do."""
        self.metrics = GuardMetrics()
        self._settings = settings
        self._rules = rules
        self._snapshot = snapshot
        self._bypass = bypass
        self.plugin: NodePlugin | None = None
        self.lease: GuardLease | None = None
        self._ruleset: Ruleset | None = None
        self._in_kernel = False
        """Whether rules of this guard, or of an earlier one, are in place."""
        self._facts = ClusterFacts()
        self._owners: dict[str, Owner] = {}
        self._addresses: set[str] = set()
        """Addresses whose owner may have changed."""
        self._facts_changed = True
        self._interfaces_changed = False
        """Whether pods may have other interfaces, or belong to others."""
        self._changed = asyncio.Event()

    @property
    def readiness(self) -> Readiness:
        """Ready once the cluster's rules are written, no bridge bypasses them and CNI works.

        Ports of bridges without rules do not count: the text names them.
        """
        if self._ruleset is None:
            return Readiness(False, "waiting for the cluster's pods and networks")
        if why := self._bypass() or (self.plugin.problem if self.plugin is not None else ""):
            return Readiness(False, why)
        unchecked = self.plugin.unchecked if self.plugin is not None else ()
        more = f"; not checked are the ports {', '.join(unchecked)}" if unchecked else ""
        return Readiness(True, f"{len(self._owners)} addresses guarded{more}")

    @property
    def rules_state(self) -> RulesState:
        """BROKEN without rules in the kernel or if packets bypass them, HOLD if ready and synced.

        Else OLD: only while the cluster is watched do rules follow it.
        """
        snapshot = self._snapshot()
        if not self._in_kernel or self._bypass():
            return RulesState.BROKEN
        follows = self.readiness.ready and snapshot.synced(snapshot.local)
        return RulesState.HOLD if follows else RulesState.OLD

    def on_change(self, change: Change, *, listed: bool = False) -> None:  # noqa: ARG002 - the informers' signature
        """Mark what a changed object may change, a pod's addresses or the facts, and wake `run`.

        Facts of the snapshot, changes of objects that do not concern the rules, and `listed` are
        ignored. A Namespace or Network also marks its pods' addresses.
        """
        if not isinstance(change, ObjectChange):
            return
        if isinstance(change.object, Pod):
            before = change.before if isinstance(change.before, Pod) else None
            after = change.after if isinstance(change.after, Pod) else None
            self._addresses |= pod_addresses(before) | pod_addresses(after)
            meta, plugin = change.object.metadata, self.plugin
            if plugin is not None and plugin.attachments.is_attached(meta.namespace, meta.name):
                self._interfaces_changed = True
        elif self._ruleset is not None and not concerns_rules(change.before, change.after):
            return
        else:
            self._facts_changed = True
            if self._ruleset is not None:
                self._addresses |= _affected_addresses(change.object, self._snapshot())
        self._changed.set()

    def on_attached(self) -> None:
        """Note that pods of this node have other interfaces, and wake `run` to update the rules."""
        self._interfaces_changed = True
        self._changed.set()

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Ignored: an address stays until the deletion of its pod is observed."""

    async def run(self) -> None:
        """Keep the rules, also if others remove them, until cancelled; they stay when it ends.

        If there are none at the start, the configured pod ranges are cut off until the cluster is
        listed. A failure is logged and counted, and all rules are written anew after RETRY_SECONDS.
        """
        self._in_kernel = self._is_in_place()
        if not self._in_kernel:
            self._close_pods()
        loop = asyncio.get_running_loop()
        check_at = loop.time() + CHECK_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(check_at):
                    await self._changed.wait()
            if loop.time() >= check_at:  # also while changes come all the time
                check_at = loop.time() + CHECK_SECONDS
                if self._ruleset is not None and not self._is_in_place():
                    log.warning("the rules were removed; they are written again")
                    self._ruleset = None
                    self._facts_changed, self._in_kernel = True, False
            self._changed.clear()
            try:
                self.update()
            except NftablesError as error:
                self.metrics.failures.inc()
                log.warning("the rules cannot be changed", extra={"why": str(error)})
                self._ruleset, self._facts_changed = None, True
                self._changed.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def remove(self) -> None:
        """Remove all rules, and the CNI plugin if it was installed, as `remove_all`.

        Raises `NftablesError` or `OSError`.
        """
        await remove_all(self._settings.cni, lambda: self._rules)

    async def remove_plugin(self) -> None:
        """Remove the CNI plugin if it was installed; the other rules stay. Errors are logged."""
        await remove_installed_plugin(self._rules)

    def update(self) -> None:
        """Change the rules if something has changed; nothing until all watched kinds are listed.

        A kind that is not served counts as listed. Sets the metrics. Raises `NftablesError`.
        """
        snapshot, started = self._snapshot(), time.perf_counter()
        if not all(
            snapshot.listed_or_unserved(snapshot.local, watch.kind) for watch in GUARD_WATCHES
        ):
            return
        commands = (
            self._replacement_commands(snapshot)
            if self._ruleset is None
            else self._change_commands(snapshot)
        )
        if isinstance(commands, str) and commands:
            self._rules.run(commands)
        elif not isinstance(commands, str) and commands:
            self._rules.change(TABLE, commands)
        self._in_kernel = True
        if commands:
            self.metrics.updates.observe(time.perf_counter() - started)
        self.metrics.addresses.set(len(self._owners))
        self.metrics.networks.set(len(self._facts.networks))

    def _replacement_commands(self, snapshot: Snapshot) -> str:
        """The commands that write the whole table anew; owners, facts and ruleset are replaced.

        Nothing is run yet; the pending addresses are cleared.
        """
        every = {a for pod in snapshot.all(snapshot.local, Pod) for a in pod_addresses(pod)}
        self._addresses.clear()
        self._owners = {a: o for a in every if (o := address_owner(a, snapshot)) is not None}
        self._facts = self._read_facts(snapshot)
        self._ruleset = build_ruleset(self._facts, self._owners)
        log.info("rules written", extra={"addresses": len(self._owners)})
        return replacement(self._ruleset)

    def _change_commands(self, snapshot: Snapshot) -> str | list[ElementChange]:
        """Set elements, or nftables commands, for what has changed since the last update.

        Empty if nothing has. Owners, facts and ruleset are updated, and the pending addresses
        cleared; nothing is run yet.
        """
        assert self._ruleset is not None
        moved = {address: address_owner(address, snapshot) for address in self._addresses}
        self._addresses.clear()
        for address, owner in moved.items():
            if owner is None:
                self._owners.pop(address, None)
            else:
                self._owners[address] = owner
        facts = self._read_facts(snapshot)
        if facts == self._facts and has_families_for(self._ruleset, moved):
            return set_owners(self._ruleset, moved)
        old, self._facts = self._ruleset, facts
        self._ruleset = build_ruleset(facts, self._owners)
        return difference(old, self._ruleset)

    def _read_facts(self, snapshot: Snapshot) -> ClusterFacts:
        """The facts, read anew as far as they are marked as changed; clears the marks."""
        facts, attached = self._facts, self.plugin.attachments if self.plugin is not None else ()
        if self._facts_changed:
            facts = cluster_facts(snapshot, self._settings.node, self._settings.pod_ranges)
        if self._facts_changed or self._interfaces_changed:
            facts = replace(facts, vpcs=vpc_facts(attached, snapshot))
        self._facts_changed = self._interfaces_changed = False
        return facts

    def _close_pods(self) -> None:
        """Write rules that cut off all pods in the configured pod ranges; a failure is logged."""
        ranges = self._settings.pod_ranges
        closed = build_ruleset(ClusterFacts(inside=ranges, local_pods=ranges), {})
        try:
            self._rules.run(replacement(closed))
        except NftablesError as error:
            log.warning("the pods of this node cannot be closed", extra={"why": str(error)})

    def _is_in_place(self) -> bool:
        """Whether the table exists with its first chain; False also if nftables cannot say."""
        try:
            return "jump decide" in self._rules.run(f"list chain inet {TABLE} forward")
        except NftablesError:
            return False


def _affected_addresses(changed: Object, snapshot: Snapshot) -> set[str]:
    """The addresses of the pods in a changed namespace, or in all those of a Network's tenant.

    Empty for other kinds.
    """
    match changed:
        case Namespace():
            spaces = [changed.metadata.name]
        case Network():
            tenant = changed.spec.tenant
            spaces = [n.metadata.name for n in tenant_namespaces(tenant, snapshot)]
        case _:
            return set()
    pods = (p for s in spaces for p in snapshot.in_namespace(snapshot.local, Pod, s))
    return {address for pod in pods for address in pod_addresses(pod)}


@asynccontextmanager
async def guarding(
    transport: Transport,
    settings: GuardSettings,
    rules: Rules | None = None,
    clock: Clock = WallClock(),  # noqa: B008 - it has no state
) -> AsyncIterator[Guard]:
    """Guard this machine as a node of a cluster until the block ends.

    Rules, the node's Lease and the CNI plugin stay then. Without a plugin in the settings, an
    installed one is removed at first. Raises `GuardUnavailable` where nftables cannot be used.
    """
    rules = rules or open_rules()
    if settings.cni is None:
        await remove_installed_plugin(rules)
    random = Random()  # noqa: S311 - spreads retries, guards nothing
    informers = ClusterInformers(GUARD_WATCHES, Facts(), clock, "here")
    client = ClusterClient(transport, random)
    informers.join("here", {Role.LOCAL}, client)
    guard = Guard(settings, rules, informers.snapshot, bridge_bypass)
    informers.change_handler = guard
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(guard.run(), name="guard")]
            guard.lease = GuardLease(
                client,
                settings.node,
                settings.boot,
                clock,
                informers.snapshot,
                lambda: guard.rules_state,
            )
            tasks.append(group.create_task(guard.lease.run(), name="Lease"))
            if settings.cni is not None:
                guard.plugin = NodePlugin(
                    settings.cni, rules, partial(_read_pod, informers.snapshot, client)
                )
                guard.plugin.on_attached = guard.on_attached
                guard.metrics.unchecked.set_function(partial(_count_unchecked, guard.plugin))
                tasks.append(group.create_task(guard.plugin.run(), name="CNI plugin"))
            async with informers.running():
                yield guard
            for task in tasks:
                task.cancel()
    finally:
        await informers.close()


def _count_unchecked(plugin: NodePlugin) -> int:
    """How many ports of bridges may be pods' and have no rules."""
    return len(plugin.unchecked)


async def _read_pod(
    snapshot: Callable[[], Snapshot], client: ClusterClient, ref: PodRef
) -> KnownPod | None:
    """A pod and its network: from the informers if prepared, without addresses and of `ref`'s uid.

    Else from the API server, whatever its uid; None if it is not there. Raises `KubeError` if that
    fails, or the namespace, by which the network is known, is not known yet.
    """
    view = snapshot()
    namespace = view.get(view.local, Namespace, ref.namespace)
    if namespace is None:
        raise Unreachable(f"namespace {ref.namespace} is not known yet")
    pod = view.get(view.local, Pod, ref.name, ref.namespace)
    if pod is None or pod.metadata.uid != ref.uid or not is_prepared(pod) or pod.status.pod_ips:
        pod = await read_or_none(client, Pod, ref.name, ref.namespace)
    if pod is None:
        return None
    return KnownPod(pod, pod_network(pod, namespace, snapshot()))
