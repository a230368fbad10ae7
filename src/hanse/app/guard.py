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
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hanse.app.cni import NodePlugin
from hanse.app.cni_folders import (
    CniFolders,
    all_folders,
    give_back_config,
    installed_folders,
    remove_plugin,
)
from hanse.features.networks.cni import PodRef, is_prepared
from hanse.features.networks.guard.facts import (
    AddressOwner,
    ClusterFacts,
    address_owner,
    cluster_facts,
    concerns_rules,
    pod_addresses,
)
from hanse.features.networks.guard.ruleset import TABLE, Ruleset, build_ruleset
from hanse.features.networks.guard.transaction import (
    REMOVAL,
    ElementChange,
    can_move,
    difference,
    move_addresses,
    replacement,
)
from hanse.features.networks.guard.watches import GUARD_WATCHES
from hanse.features.networks.lookups import tenant_namespaces
from hanse.health import Readiness
from hanse.kube.client_config import Credentials
from hanse.kube.clock import WallClock
from hanse.kube.errors import NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.model.facts import Facts, Role
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.kinds.networks import Network
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Change, ObjectChange, Snapshot
from hanse.providers.nftables import Nftables, NftablesError, bridge_bypass
from hanse.runtime.api import ClusterClient
from hanse.runtime.informers import ClusterInformers

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
"""How often it is checked that nobody has removed the rules."""
RETRY_SECONDS = 1.0


class GuardUnavailable(Exception):
    """This machine cannot be guarded; the message says why."""


class Rules(Protocol):
    """Where rules are applied: all commands of a call, or none."""

    def run(self, commands: str) -> str: ...

    def change(self, table: str, changes: Sequence[ElementChange]) -> None: ...


class GuardSettings(Struct, frozen=True):
    """The node that is guarded."""

    node: str
    pod_ranges: tuple[str, ...] = ()
    """Its pod ranges, where its Node does not have them."""
    cni: CniFolders | None = None
    """Where the CNI plugin is installed, if it is."""


class GuardMetrics:
    """What a guard tells Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.addresses = Gauge(
            "hanse_guard_addresses", "Pod addresses in the rules.", registry=self.registry
        )
        self.networks = Gauge(
            "hanse_guard_networks", "Networks in the rules.", registry=self.registry
        )
        self.unchecked = Gauge(
            "hanse_guard_unchecked_ports",
            "Ports of bridges that may be pods' and have no rules.",
            registry=self.registry,
        )
        self.failures = Counter(
            "hanse_guard_failures", "Changes that nftables refused.", registry=self.registry
        )
        self.updates = Histogram(
            "hanse_guard_update_seconds",
            "How long a change of the rules took.",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1.0, 5.0),
            registry=self.registry,
        )


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
        """Guard by rules; `bypass` tells why some packets do not pass them, if so."""
        self.metrics = GuardMetrics()
        self._settings = settings
        self._rules = rules
        self._snapshot = snapshot
        self._bypass = bypass
        self.plugin: NodePlugin | None = None
        self._ruleset: Ruleset | None = None
        self._facts = ClusterFacts()
        self._owners: dict[str, AddressOwner] = {}
        self._addresses: set[str] = set()
        """Addresses whose owner may have changed."""
        self._facts_changed = True
        self._changed = asyncio.Event()

    @property
    def readiness(self) -> Readiness:
        """Ready once the cluster's rules are written, no bridge bypasses them and CNI works."""
        if self._ruleset is None:
            return Readiness(False, "waiting for the cluster's pods and networks")
        if why := self._bypass() or (self.plugin.problem if self.plugin is not None else ""):
            return Readiness(False, why)
        unchecked = self.plugin.unchecked if self.plugin is not None else ()
        more = f"; not checked are the ports {', '.join(unchecked)}" if unchecked else ""
        return Readiness(True, f"{len(self._owners)} addresses guarded{more}")

    def on_change(self, change: Change, *, listed: bool = False) -> None:  # noqa: ARG002 - the informers' signature
        """Note what a change concerns; the rules follow soon."""
        if not isinstance(change, ObjectChange):
            return
        if isinstance(change.object, Pod):
            before = change.before if isinstance(change.before, Pod) else None
            after = change.after if isinstance(change.after, Pod) else None
            self._addresses |= pod_addresses(before) | pod_addresses(after)
        elif self._ruleset is not None and not concerns_rules(change.before, change.after):
            return
        else:
            self._facts_changed = True
            if self._ruleset is not None:
                self._addresses |= _addresses_of(change.object, self._snapshot())
        self._changed.set()

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Ignored: an address stays until the deletion of its pod is observed."""

    async def run(self) -> None:
        """Keep the rules, also if others remove them, until cancelled; they stay when it ends."""
        if not self._is_in_place():
            self._close_pods()
        check_at = time.monotonic() + CHECK_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, check_at - time.monotonic())):
                    await self._changed.wait()
            if time.monotonic() >= check_at:  # also while changes come all the time
                check_at = time.monotonic() + CHECK_SECONDS
                if self._ruleset is not None and not self._is_in_place():
                    log.warning("the rules were removed; they are written again")
                    self._ruleset = None
                    self._facts_changed = True
            self._changed.clear()
            try:
                self._update()
            except NftablesError as error:
                self.metrics.failures.inc()
                log.warning("the rules cannot be changed", extra={"why": str(error)})
                self._ruleset, self._facts_changed = None, True
                self._changed.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def remove(self) -> None:
        """Remove all rules, and the CNI plugin if it was installed."""
        await _remove(self._settings.cni, lambda: self._rules)

    async def remove_plugin(self) -> None:
        """Remove the CNI plugin if it was installed; the other rules stay. Errors are logged."""
        await _leave_cni(self._rules)

    def _update(self) -> None:
        """Change the rules if something has changed; nothing until everything is listed."""
        snapshot, started = self._snapshot(), time.perf_counter()
        if not all(
            snapshot.listed_or_unserved(snapshot.local, watch.kind) for watch in GUARD_WATCHES
        ):
            return
        commands = self._replace(snapshot) if self._ruleset is None else self._advance(snapshot)
        if isinstance(commands, str) and commands:
            self._rules.run(commands)
        elif not isinstance(commands, str) and commands:
            self._rules.change(TABLE, commands)
        if commands:
            self.metrics.updates.observe(time.perf_counter() - started)
        self.metrics.addresses.set(len(self._owners))
        self.metrics.networks.set(len(self._facts.networks))

    def _replace(self, snapshot: Snapshot) -> str:
        """The commands that write the whole table anew; owners, facts and ruleset are replaced."""
        every = {a for pod in snapshot.all(snapshot.local, Pod) for a in pod_addresses(pod)}
        self._addresses.clear()
        self._owners = {a: o for a in every if (o := address_owner(a, snapshot)) is not None}
        self._facts = cluster_facts(snapshot, self._settings.node, self._settings.pod_ranges)
        self._facts_changed = False
        self._ruleset = build_ruleset(self._facts, self._owners)
        log.info("rules written", extra={"addresses": len(self._owners)})
        return replacement(self._ruleset)

    def _advance(self, snapshot: Snapshot) -> str | list[ElementChange]:
        """What has changed since the last update: elements of sets alone, or nftables commands."""
        assert self._ruleset is not None
        moved = {address: address_owner(address, snapshot) for address in self._addresses}
        self._addresses.clear()
        for address, owner in moved.items():
            if owner is None:
                self._owners.pop(address, None)
            else:
                self._owners[address] = owner
        facts = self._facts
        if self._facts_changed:
            self._facts_changed = False
            facts = cluster_facts(snapshot, self._settings.node, self._settings.pod_ranges)
        if facts == self._facts and can_move(self._ruleset, moved):
            return move_addresses(self._ruleset, moved)
        old, self._facts = self._ruleset, facts
        self._ruleset = build_ruleset(facts, self._owners)
        return difference(old, self._ruleset)

    def _close_pods(self) -> None:
        """Close the node's pod ranges, as far as they are known without the API server."""
        ranges = self._settings.pod_ranges
        closed = build_ruleset(ClusterFacts(inside=ranges, local_pods=ranges), {})
        try:
            self._rules.run(replacement(closed))
        except NftablesError as error:
            log.warning("the pods of this node cannot be closed", extra={"why": str(error)})

    def _is_in_place(self) -> bool:
        """Whether the table exists with its first chain."""
        try:
            return "jump decide" in self._rules.run(f"list chain inet {TABLE} forward")
        except NftablesError:
            return False


def _addresses_of(changed: Object, snapshot: Snapshot) -> set[str]:
    """Addresses whose network may change with a namespace or a network."""
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
    credentials: Credentials, settings: GuardSettings, rules: Rules | None = None
) -> AsyncIterator[Guard]:
    """Guard this machine as a node of a cluster until the block ends; the rules stay.

    Raises `GuardUnavailable` where nftables is not installed.
    """
    rules = rules or _open_rules()
    if settings.cni is None:
        await _leave_cni(rules)
    clock, random = WallClock(), Random()  # noqa: S311 - spreads retries, guards nothing
    informers = ClusterInformers(GUARD_WATCHES, Facts(), clock, "here")
    client = ClusterClient(HttpTransport(credentials), random)
    informers.join("here", {Role.LOCAL}, client)
    guard = Guard(settings, rules, informers.snapshot)
    informers.change_handler = guard
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(guard.run(), name="guard")]
            if settings.cni is not None:
                guard.plugin = NodePlugin(
                    settings.cni, rules, partial(_read_pod, informers.snapshot, client)
                )
                guard.metrics.unchecked.set_function(partial(_count_unchecked, guard.plugin))
                tasks.append(group.create_task(guard.plugin.run(), name="CNI plugin"))
            async with informers.running():
                yield guard
            for task in tasks:
                task.cancel()
    finally:
        await informers.close()


def _count_unchecked(plugin: NodePlugin) -> int:
    return len(plugin.unchecked)


async def _read_pod(
    snapshot: Callable[[], Snapshot], client: ClusterClient, ref: PodRef
) -> Pod | None:
    """A pod from the informers once its port is prepared, else from the API server; or None."""
    view = snapshot()
    known = view.get(view.local, Pod, ref.name, ref.namespace)
    if known is not None and known.metadata.uid == ref.uid and is_prepared(known):
        return known
    try:
        return await client.read(Pod, ref.name, ref.namespace)
    except NotFound:
        return None


async def remove_rules(cni: CniFolders | None) -> None:
    """Remove the rules of this machine and its CNI plugin, also if its folders are not given.

    Raises `GuardUnavailable`.
    """
    try:
        await _remove(cni, _open_rules)
    except (NftablesError, OSError) as error:
        raise GuardUnavailable(f"the rules cannot be removed: {error}") from None


async def _remove(cni: CniFolders | None, open_rules: Callable[[], Rules]) -> None:
    """Give the node its network configuration back, whatever nftables says, then remove all."""
    places = all_folders(cni, installed_folders())
    await give_back_config(places)
    rules = open_rules()
    rules.run(REMOVAL)
    await remove_plugin(places, rules)


async def _leave_cni(rules: Rules) -> None:
    """Remove the plugin that an earlier guard installed: nobody would answer it."""
    if (installed := installed_folders()) is None:
        return
    try:
        await remove_plugin([installed], rules)
        log.info("the CNI plugin of this node is removed")
    except (NftablesError, OSError) as error:
        log.warning("the CNI plugin is not wholly removed", extra={"why": str(error)})


def _open_rules() -> Nftables:
    try:
        return Nftables()
    except NftablesError as error:
        raise GuardUnavailable(str(error)) from None
