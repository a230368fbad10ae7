"""Random actions of users on replicated policies, and random faults."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any

from msgspec.structs import replace

from hanse.features.policies.content import FEDERATED, is_federated
from hanse.features.policies.ledger import PAGE_NAME, VERSION_ANNOTATION
from hanse.features.policies.options import PolicyOptions
from hanse.kube.errors import KubeError
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.objects import Meta
from hanse.runtime.leaving import leave
from tests.features.policies.expected_outcomes import (
    ABSENT,
    ORPHANED,
    ExpectedOutcomes,
    WriteAuditor,
)
from tests.features.policies.fleet import (
    BERGEN,
    CLUSTERS,
    LUBECK,
    SHOP,
    SUPERVISORS,
    PolicyFleet,
    acnp,
    anp,
    summarize,
)
from tests.support.faults import LinkFaults
from tinykube.storage import Snapshot

DISTURBED = LinkFaults(delay=timedelta(milliseconds=30), refused=0.15, lost=0.1, breaks=0.1)
LAG = LinkFaults(lag=timedelta(seconds=4))
SLOW = LinkFaults(delay=timedelta(seconds=2))
OPTIONS = PolicyOptions(retention=timedelta(seconds=10), flips=1000)
"""Flapping has a scenario of its own: here users may restore versions without limit."""
TAKEOVER = 20.0
Action = Callable[[], Awaitable[None]]
COLLECTED = 40.0
"""Seconds after which a tombstone that all members know is collected."""
TOPOLOGIES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((LUBECK, BERGEN), (LUBECK,)),
    (SUPERVISORS, SUPERVISORS),
    (CLUSTERS, SUPERVISORS),
)
"""Members and supervisors; few of them, so that actions collide."""


class RandomActions:
    """One fleet, the actions on it, and the outcomes that are expected."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.names, self.supervisor_names = self.random.choices(TOPOLOGIES, (4, 2, 4))[0]
        self.has_short_memory = self.random.random() < 0.35
        skews = {n: timedelta(seconds=self.random.choice((0, 0, -70, 3600))) for n in self.names}
        self.fleet = PolicyFleet(
            self.names,
            self.supervisor_names,
            seed=seed,
            options=replace(OPTIONS, remembered=1) if self.has_short_memory else OPTIONS,
            skews=skews,
            elections=False,
            discovers=False,
        )
        self.namespaced = self.random.random() < 0.5
        self.make = anp if self.namespaced else acnp
        self.expected = {name: ExpectedOutcomes(self.names) for name in ("deny", "allow")}
        self.violations: list[str] = []
        self.auditor = WriteAuditor(self.fleet, self.expected, self.violations.append)
        self.backups: dict[str, tuple[Snapshot, int]] = {}
        self.without_namespace: set[str] = set()
        self.departed_member: str = ""
        self.written = 0
        self.log: list[str] = []

    def _log(self, message: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time():9.2f} {message}")

    # -- users

    def _random_cluster(self) -> str:
        return self.random.choice(self.names)

    def _random_name(self) -> str:
        """A policy that is not orphaned; orphaned ones are left alone until members agree."""
        return self.random.choice(
            [n for n in sorted(self.expected) if n not in self._orphaned_names()]
        )

    def _orphaned_names(self) -> list[str]:
        return [name for name, expected in self.expected.items() if ORPHANED in expected.ever]

    async def _create(self, where: str = "", name: str = "") -> None:
        where, name = where or self._random_cluster(), name or self._random_name()
        self.written += 1
        policy = self.make(name, self.written)
        try:
            with self.auditor.by_hand(where):
                await self.fleet.create(where, policy)
        except KubeError:
            return
        self._log(f"{where}: {name} is created with {self.written}")
        self._record_action(where, name, self.written)
        if where == self.departed_member:
            self.expected[name].record_creation_outside(self.written)

    async def _edit(self, where: str = "", name: str = "") -> None:
        where, name = where or self._random_cluster(), name or self._random_name()
        standing = await self.fleet.find(where, self.make(name))
        if standing is None:
            return
        self.written += 1
        change: dict[str, Any] = {"spec": {"priority": self.written}}
        if self.random.random() < 0.4:
            change = {"metadata": {"labels": {"edit": str(self.written)}}}
        try:
            with self.auditor.by_hand(where):
                after = await self.fleet.edit(where, standing, change)
        except KubeError:
            return
        self._log(f"{where}: {name} is edited to {summarize(after)}")
        if is_federated(after):
            self._record_action(where, name, summarize(after))
            if (
                where == self.departed_member
                and VERSION_ANNOTATION not in after.metadata.annotations
            ):
                self.expected[name].record_creation_outside(summarize(after))
        elif (
            VERSION_ANNOTATION not in after.metadata.annotations
        ):  # else our annotation is still to be removed
            self.expected[name].plain[where] = after.metadata.resource_version

    async def _delete(self, where: str = "", name: str = "") -> None:
        where, name = where or self._random_cluster(), name or self._random_name()
        standing = await self.fleet.find(where, self.make(name))
        if standing is None:
            return
        written = await self.fleet.is_being_written(where, standing)
        try:
            with self.auditor.by_hand(where):
                await self.fleet.delete(where, standing)
        except KubeError:
            return
        self._log(f"{where}: {name} is deleted")
        if is_federated(standing):
            self._record_action(where, name, ABSENT)
            self.expected[
                name
            ].uncertain |= written  # a write under way may be taken for the deletion
        self.expected[name].plain.pop(where, None)

    async def _orphan(self, where: str = "", name: str = "") -> None:
        where, name = where or self._random_cluster(), name or self._random_name()
        standing = await self.fleet.find(where, self.make(name))
        if standing is None or not is_federated(standing) or len(self._orphaned_names()) > 1:
            return
        if where == self.departed_member:
            return
        with self.auditor.by_hand(where):
            change = {"metadata": {"annotations": {FEDERATED: None}}}
            await self.fleet.edit(where, standing, change)
        self._log(f"{where}: {name} leaves the federation")
        self._record_action(where, name, ORPHANED)

    async def _create_plain(self, where: str = "", name: str = "") -> None:
        where, name = where or self._random_cluster(), name or self._random_name()
        try:
            with self.auditor.by_hand(where):
                made = await self.fleet.create(where, self.make(name, 0, federated=False))
        except KubeError:
            return
        self._log(f"{where}: a plain {name} is created")
        expected = self.expected[name]
        expected.plain[where] = made.metadata.resource_version
        if where in expected.last and expected.last[where] == ABSENT:
            expected.uncertain = (
                True  # it may have been deleted and replaced before it was observed
            )

    async def _annotate(self, where: str = "", name: str = "") -> None:
        """Annotate a plain policy to be federated; other members may have one of its name."""
        where, name = where or self._random_cluster(), name or self._random_name()
        standing = await self.fleet.find(where, self.make(name))
        if standing is None or is_federated(standing):
            return
        with self.auditor.by_hand(where):
            change = {"metadata": {"annotations": {FEDERATED: "true"}}}
            after = await self.fleet.edit(where, standing, change)
        self._log(f"{where}: {name} with {summarize(after)} enters the federation")
        self.expected[name].plain.pop(where, None)
        self.expected[name].record_annotation(where, summarize(after))

    def _record_action(self, where: str, name: str, outcome: object) -> None:
        if where == self.departed_member:
            self.expected[name].record_action_outside(outcome)
            return
        self.expected[name].record_action(where, outcome)

    # -- faults

    def _leader(self, member: str) -> str:
        """The supervisor that leads a member, if any does."""
        led = (s for s in self.supervisor_names if member in self.fleet.crowns[s].members)
        return next(led, "")

    def _random_link(self) -> tuple[str, str]:
        return self.random.choice(self.supervisor_names), self._random_cluster()

    async def _cut(self) -> None:
        source, target = self._random_link()
        self.fleet.network.cut(source, target)
        self._log(f"{source} is cut off from {target}")

    async def _heal_links(self) -> None:
        self.fleet.network.heal_all()
        self._log("all links heal")

    async def _disturb_link(self) -> None:
        source, target = self._random_link()
        self.fleet.network.link(source, target).faults = DISTURBED
        self._log(f"a storm between {source} and {target}")

    async def _delay_watches(self, target: str = "") -> None:
        target = target or self._random_cluster()
        for source in self.supervisor_names:
            self.fleet.network.link(source, target).faults = LAG
        self._log(f"what happens in {target} is seen late")

    async def _kill_or_start_agent(self) -> None:
        name = self.random.choice(self.supervisor_names)
        if name in self.fleet.agents:
            await self.fleet.kill_agent(name)
            self._log(f"the agent of {name} is killed")
            await asyncio.sleep(self.random.choice((0, TAKEOVER)))
            self._assign_all_leaders()
        else:
            self.fleet.start_agent(name)
            self._assign_all_leaders()
            self._log(f"the agent of {name} starts")

    async def _move_leadership(self, member: str = "") -> None:
        """Another supervisor leads a member; for a moment both may believe that they do."""
        member = member or self._random_cluster()
        if len(self.fleet.agents) < 2 or member == self.departed_member:
            return
        old = next(
            (s for s in self.supervisor_names if member in self.fleet.crowns[s].members), None
        )
        new = next(s for s in self.supervisor_names if s != old)
        overlap = self.random.choice((0.0, 0.0, 0.02, 1.0))
        if old is not None and not overlap:
            self.fleet.revoke_leader(old, member)
        self.fleet.assign_leader(new, member)
        await asyncio.sleep(overlap)
        if old is not None and old in self.fleet.agents:
            self.fleet.revoke_leader(old, member)
        self._log(f"{new} leads {member}, after {old} ({overlap})")

    async def _crash_at_a_request(self, meanwhile: Action | None = None, name: str = "") -> None:
        """A supervisor crashes while it waits for a response, and is started again."""
        crash = self.fleet.network.crash_at(self.random.randint(1, 12))
        await self.random.choice((self._edit, self._create, self._delete))(name=name)
        done, _ = await asyncio.wait({crash}, timeout=30)
        self.fleet.network.cancel_crash()
        if done and crash.result() in self.fleet.agents:
            await self.fleet.kill_agent(crash.result())
            self._log(f"the agent of {crash.result()} crashed at a request")
            if meanwhile is not None:
                await meanwhile()
            self.fleet.start_agent(crash.result())
            self._assign_all_leaders()

    async def _restart_server(self) -> None:
        target = self._random_cluster()
        for link in self.fleet.network.links_to(target):
            self.fleet.network.break_watches(link.source, target)
        self._log(f"the API server of {target} restarts")

    async def _lose_history(self) -> None:
        self.fleet.clusters[self._random_cluster()].storage.compact()
        await self._restart_server()

    async def _back_up(self, cluster: str = "") -> None:
        cluster = cluster or self._random_cluster()
        self.backups[cluster] = (self.fleet.clusters[cluster].storage.snapshot(), len(self.log))
        self._log(f"{cluster} is backed up")

    async def _restore(self, cluster: str = "") -> None:
        """A member is down for a while and is restored from its backup."""
        cluster = cluster or self._random_cluster()
        if cluster not in self.backups or cluster == self.departed_member or self.without_namespace:
            return
        if self.has_short_memory:
            return  # collected tombstones are not remembered then
        links = [link for link in self.fleet.network.links_to(cluster) if not link.cut]
        for link in links:
            self.fleet.network.cut(link.source, cluster)
        await asyncio.sleep(self.random.choice((0.5, 5)))
        with self.auditor.by_hand(cluster):
            self.fleet.clusters[cluster].storage.restore(self.backups[cluster][0])
        for link in links:
            self.fleet.network.heal(link.source, cluster)
        self._log(f"{cluster} is restored from its backup")
        for name, expected in self.expected.items():
            expected.record_restore(cluster)
            standing = await self.fleet.find(cluster, self.make(name))
            expected.plain.pop(cluster, None)
            if standing is not None and not is_federated(standing):
                expected.uncertain = True
                if VERSION_ANNOTATION not in standing.metadata.annotations:
                    expected.plain[cluster] = standing.metadata.resource_version

    async def _leave_or_join(self) -> None:
        """Remove a member from the federation, cleanly or by force, or add it again."""
        if self.departed_member:
            await self._join()
            return
        if not self.fleet.agents:
            return  # no agent would record that it left
        member = self.names[-1]
        if member in self.supervisor_names:
            return  # supervisors do not leave
        if any(b.last.get(member) == ORPHANED for b in self.expected.values()):
            return  # it may or may not be replicated before it leaves
        force = self.random.random() < 0.5
        if not force:
            self.fleet.network.heal_all()
        try:
            async with asyncio.timeout(60):
                await self._remove_member(member, force)
        except TimeoutError:
            await self._remove_member(member, force=True)
        self.departed_member = member
        for expected in self.expected.values():
            expected.record_leave(member)
        self._log(f"{member} leaves the federation{' by force' if force else ''}")

    async def _remove_member(self, member: str, force: bool) -> None:
        if not force:
            reconcilers = [agent.reconciler for agent in self.fleet.agents.values()]
            await asyncio.gather(*(leave(reconciler, member) for reconciler in reconcilers))
        await self.fleet.remove(member, force=True)
        for assign_leader in self.fleet.crowns.values():
            assign_leader.members.discard(member)

    async def _join(self) -> None:
        member, self.departed_member = self.departed_member, ""
        page = await self.fleet.page(member)
        others = [p for c in self.names if c != member and (p := await self.fleet.page(c))]
        if page is not None and not any(p.left.get(member, 0) >= page.stay for p in others):
            for expected in self.expected.values():
                expected.record_unnoticed_stay()
        self.fleet.add(member)
        self._assign_all_leaders()
        self._log(f"{member} joins the federation")

    async def _corrupt_record(self) -> None:
        """Somebody deletes or overwrites a record of the ledger by hand."""
        if self.has_short_memory:
            return  # no other member may have its history
        where = self._random_cluster()
        client = self.fleet.client(where)
        records = list((await client.list(ConfigMap, namespace="antrea-plus-system")).objects)
        if self.departed_member:  # or nobody remembers that somebody is away
            records = [r for r in records if r.metadata.name != PAGE_NAME]
        if not records:
            return
        record = self.random.choice(records)
        meta = record.metadata
        if self.random.random() < 0.7:
            await client.delete(ConfigMap, meta.name, meta.namespace)
        else:
            await client.patch(ConfigMap, meta.name, meta.namespace, {"data": {"record": "{"}})
        self._log(f"{where}: the record {meta.name} is spoilt")
        for name, expected in self.expected.items():
            if meta.name.endswith(name):
                expected.record_corruption(where)

    async def _delete_or_create_namespace(self, cluster: str = "") -> None:
        """A user deletes the namespace with its policies, or creates it again."""
        cluster = cluster or self._random_cluster()
        client = self.fleet.client(cluster)
        if cluster in self.without_namespace:
            await client.create(Namespace(metadata=Meta(name=SHOP)))
            self.without_namespace.discard(cluster)
            self._log(f"{cluster} has its namespace again")
            return
        self.without_namespace.add(cluster)
        with self.auditor.by_hand(cluster):
            await client.delete(Namespace, SHOP, "")
            while self._namespace_exists(cluster):  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.1)
        self._log(f"{cluster} loses its namespace")
        for expected in self.expected.values():
            expected.record_namespace_deletion(cluster)

    def _namespace_exists(self, cluster: str) -> bool:
        return self.fleet.clusters[cluster].storage.get("namespaces", "", SHOP) is not None

    def _assign_all_leaders(self) -> None:
        """Assign a running supervisor to every member without a leader."""
        for member in self.names:
            leaders = [s for s in self.fleet.agents if member in self.fleet.crowns[s].members]
            if not leaders and self.fleet.agents and member != self.departed_member:
                self.fleet.assign_leader(self.random.choice(sorted(self.fleet.agents)), member)
