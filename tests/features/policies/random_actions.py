"""What people do to replicated policies, and what goes wrong meanwhile, chosen at random."""

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
from tests.features.policies.expected_outcomes import ABSENT, ORPHANED, Believed, Witness
from tests.features.policies.fleet import (
    BERGEN,
    CLUSTERS,
    LUBECK,
    SHOP,
    SUPERVISORS,
    Realm,
    acnp,
    anp,
    said,
)
from tests.support.faults import LinkFaults
from tinykube.storage import Snapshot

STORM = LinkFaults(delay=timedelta(milliseconds=30), refused=0.15, lost=0.1, breaks=0.1)
LAG = LinkFaults(lag=timedelta(seconds=4))
SLOW = LinkFaults(delay=timedelta(seconds=2))
OPTIONS = PolicyOptions(retention=timedelta(seconds=10), flips=1000)
"""Flapping is a scenario of its own: here people may change their minds as often as they like."""
TAKEOVER = 20.0
Deed = Callable[[], Awaitable[None]]
COLLECTED = 40.0
"""Seconds after which the tombstone of what all have heard of is no more."""
LEAGUES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((LUBECK, BERGEN), (LUBECK,)),
    (SUPERVISORS, SUPERVISORS),
    (CLUSTERS, SUPERVISORS),
)
"""Few members and few policies, so that what people do meets."""


class Deeds:
    """One realm, and what its people did."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.names, self.chiefs = self.random.choices(LEAGUES, (4, 2, 4))[0]
        self.forgetful = self.random.random() < 0.35
        skews = {n: timedelta(seconds=self.random.choice((0, 0, -70, 3600))) for n in self.names}
        self.realm = Realm(
            self.names,
            self.chiefs,
            seed=seed,
            options=replace(OPTIONS, remembered=1) if self.forgetful else OPTIONS,
            skews=skews,
            elections=False,
            discovers=False,
        )
        self.namespaced = self.random.random() < 0.5
        self.make = anp if self.namespaced else acnp
        self.believed = {name: Believed(self.names) for name in ("deny", "allow")}
        self.complaints: list[str] = []
        self.witness = Witness(self.realm, self.believed, self.complaints.append)
        self.backups: dict[str, tuple[Snapshot, int]] = {}
        self.homeless: set[str] = set()
        self.outside: str = ""
        self.written = 0
        self.story: list[str] = []

    def _tell(self, what: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():9.2f} {what}")

    # -- people

    def _cluster(self) -> str:
        return self.random.choice(self.names)

    def _name(self) -> str:
        """A policy; what was left to its cluster is plain, and left alone until all agree."""
        return self.random.choice([n for n in sorted(self.believed) if n not in self._orphans()])

    def _orphans(self) -> list[str]:
        return [name for name, believed in self.believed.items() if ORPHANED in believed.ever]

    async def _create(self, where: str = "", name: str = "") -> None:
        where, name = where or self._cluster(), name or self._name()
        self.written += 1
        policy = self.make(name, self.written)
        try:
            with self.witness.by_hand(where):
                await self.realm.create(where, policy)
        except KubeError:
            return
        self._tell(f"{where}: {name} is created with {self.written}")
        self._acted(where, name, self.written)
        if where == self.outside:
            self.believed[name].made_outside(self.written)

    async def _edit(self, where: str = "", name: str = "") -> None:
        where, name = where or self._cluster(), name or self._name()
        standing = await self.realm.find(where, self.make(name))
        if standing is None:
            return
        self.written += 1
        change: dict[str, Any] = {"spec": {"priority": self.written}}
        if self.random.random() < 0.4:
            change = {"metadata": {"labels": {"edit": str(self.written)}}}
        try:
            with self.witness.by_hand(where):
                after = await self.realm.edit(where, standing, change)
        except KubeError:
            return
        self._tell(f"{where}: {name} is edited to {said(after)}")
        if is_federated(after):
            self._acted(where, name, said(after))
            if where == self.outside and VERSION_ANNOTATION not in after.metadata.annotations:
                self.believed[name].made_outside(said(after))
        elif (
            VERSION_ANNOTATION not in after.metadata.annotations
        ):  # or that is still to be taken off
            self.believed[name].plain[where] = after.metadata.resource_version

    async def _delete(self, where: str = "", name: str = "") -> None:
        where, name = where or self._cluster(), name or self._name()
        standing = await self.realm.find(where, self.make(name))
        if standing is None:
            return
        written = await self.realm.is_being_written(where, standing)
        try:
            with self.witness.by_hand(where):
                await self.realm.delete(where, standing)
        except KubeError:
            return
        self._tell(f"{where}: {name} is deleted")
        if is_federated(standing):
            self._acted(where, name, ABSENT)
            self.believed[name].unsure |= written  # and then its end may be nobody's decision
        self.believed[name].plain.pop(where, None)

    async def _unannotate(self, where: str = "", name: str = "") -> None:
        where, name = where or self._cluster(), name or self._name()
        standing = await self.realm.find(where, self.make(name))
        if standing is None or not is_federated(standing) or len(self._orphans()) > 1:
            return
        if where == self.outside:
            return
        with self.witness.by_hand(where):
            change = {"metadata": {"annotations": {FEDERATED: None}}}
            await self.realm.edit(where, standing, change)
        self._tell(f"{where}: {name} leaves the federation")
        self._acted(where, name, ORPHANED)

    async def _create_plain(self, where: str = "", name: str = "") -> None:
        where, name = where or self._cluster(), name or self._name()
        try:
            with self.witness.by_hand(where):
                made = await self.realm.create(where, self.make(name, 0, federated=False))
        except KubeError:
            return
        self._tell(f"{where}: a plain {name} is created")
        believed = self.believed[name]
        believed.plain[where] = made.metadata.resource_version
        if where in believed.last and believed.last[where] == ABSENT:
            believed.unsure = True  # deleted and replaced before anybody looked, maybe

    async def _annotate(self, where: str = "", name: str = "") -> None:
        """A plain policy becomes a federated one, beside what others may have under its name."""
        where, name = where or self._cluster(), name or self._name()
        standing = await self.realm.find(where, self.make(name))
        if standing is None or is_federated(standing):
            return
        with self.witness.by_hand(where):
            change = {"metadata": {"annotations": {FEDERATED: "true"}}}
            after = await self.realm.edit(where, standing, change)
        self._tell(f"{where}: {name} with {said(after)} enters the federation")
        self.believed[name].plain.pop(where, None)
        self.believed[name].entered(where, said(after))

    def _acted(self, where: str, name: str, what: object) -> None:
        if where == self.outside:
            self.believed[name].acted_outside(what)
            return
        self.believed[name].acted(where, what)

    # -- faults

    def _leader(self, member: str) -> str:
        """The supervisor that leads a member, if any does."""
        led = (s for s in self.chiefs if member in self.realm.crowns[s].members)
        return next(led, "")

    def _link(self) -> tuple[str, str]:
        return self.random.choice(self.chiefs), self._cluster()

    async def _cut(self) -> None:
        source, target = self._link()
        self.realm.network.cut(source, target)
        self._tell(f"{source} is cut off from {target}")

    async def _mend(self) -> None:
        self.realm.network.heal_all()
        self._tell("all links heal")

    async def _storm(self) -> None:
        source, target = self._link()
        self.realm.network.link(source, target).faults = STORM
        self._tell(f"a storm between {source} and {target}")

    async def _lag(self, target: str = "") -> None:
        target = target or self._cluster()
        for source in self.chiefs:
            self.realm.network.link(source, target).faults = LAG
        self._tell(f"what happens in {target} is seen late")

    async def _kill(self) -> None:
        name = self.random.choice(self.chiefs)
        if name in self.realm.agents:
            await self.realm.kill_agent(name)
            self._tell(f"the agent of {name} is killed")
            await asyncio.sleep(self.random.choice((0, TAKEOVER)))
            self._lead_all()
        else:
            self.realm.start_agent(name)
            self._lead_all()
            self._tell(f"the agent of {name} starts")

    async def _move(self, member: str = "") -> None:
        """Another supervisor leads a member; for a moment both may think that they do."""
        member = member or self._cluster()
        if len(self.realm.agents) < 2 or member == self.outside:
            return
        old = next((s for s in self.chiefs if member in self.realm.crowns[s].members), None)
        new = next(s for s in self.chiefs if s != old)
        overlap = self.random.choice((0.0, 0.0, 0.02, 1.0))
        if old is not None and not overlap:
            self.realm.depose(old, member)
        self.realm.crown(new, member)
        await asyncio.sleep(overlap)
        if old is not None and old in self.realm.agents:
            self.realm.depose(old, member)
        self._tell(f"{new} leads {member}, after {old} ({overlap})")

    async def _crash_at_a_request(self, meanwhile: Deed | None = None, name: str = "") -> None:
        """A supervisor dies while it waits for an answer, and is started again."""
        crash = self.realm.network.crash_at(self.random.randint(1, 12))
        await self.random.choice((self._edit, self._create, self._delete))(name=name)
        done, _ = await asyncio.wait({crash}, timeout=30)
        self.realm.network.cancel_crash()
        if done and crash.result() in self.realm.agents:
            await self.realm.kill_agent(crash.result())
            self._tell(f"the agent of {crash.result()} crashed at a request")
            if meanwhile is not None:
                await meanwhile()
            self.realm.start_agent(crash.result())
            self._lead_all()

    async def _restart_server(self) -> None:
        target = self._cluster()
        for link in self.realm.network.links_to(target):
            self.realm.network.break_watches(link.source, target)
        self._tell(f"the API server of {target} restarts")

    async def _lose_history(self) -> None:
        self.realm.clusters[self._cluster()].storage.compact()
        await self._restart_server()

    async def _back_up(self, cluster: str = "") -> None:
        cluster = cluster or self._cluster()
        self.backups[cluster] = (self.realm.clusters[cluster].storage.snapshot(), len(self.story))
        self._tell(f"{cluster} is backed up")

    async def _restore(self, cluster: str = "") -> None:
        """A member is down for a while and comes back as it was when it was backed up."""
        cluster = cluster or self._cluster()
        if cluster not in self.backups or cluster == self.outside or self.homeless:
            return
        if self.forgetful:
            return  # what was deleted long ago is remembered by nobody then
        links = [link for link in self.realm.network.links_to(cluster) if not link.cut]
        for link in links:
            self.realm.network.cut(link.source, cluster)
        await asyncio.sleep(self.random.choice((0.5, 5)))
        with self.witness.by_hand(cluster):
            self.realm.clusters[cluster].storage.restore(self.backups[cluster][0])
        for link in links:
            self.realm.network.heal(link.source, cluster)
        self._tell(f"{cluster} is restored from its backup")
        for name, believed in self.believed.items():
            believed.restored(cluster)
            standing = await self.realm.find(cluster, self.make(name))
            believed.plain.pop(cluster, None)
            if standing is not None and not is_federated(standing):
                believed.unsure = True
                if VERSION_ANNOTATION not in standing.metadata.annotations:
                    believed.plain[cluster] = standing.metadata.resource_version

    async def _leave_or_join(self) -> None:
        """A member is taken out of the federation, cleanly or not, or taken in again."""
        if self.outside:
            await self._join()
            return
        if not self.realm.agents:
            return  # nobody would notice that it was away
        member = self.names[-1]
        if member in self.chiefs:
            return  # whoever leads others has left nothing yet
        if any(b.last.get(member) == ORPHANED for b in self.believed.values()):
            return  # whether that was heard of before it left, nobody can tell
        force = self.random.random() < 0.5
        if not force:
            self.realm.network.heal_all()
        try:
            async with asyncio.timeout(60):
                await self._take_out(member, force)
        except TimeoutError:
            await self._take_out(member, force=True)
        self.outside = member
        for believed in self.believed.values():
            believed.left(member)
        self._tell(f"{member} leaves the federation{' by force' if force else ''}")

    async def _take_out(self, member: str, force: bool) -> None:
        if not force:
            reconcilers = [agent.reconciler for agent in self.realm.agents.values()]
            await asyncio.gather(*(leave(reconciler, member) for reconciler in reconcilers))
        await self.realm.remove(member, force=True)
        for crown in self.realm.crowns.values():
            crown.members.discard(member)

    async def _join(self) -> None:
        member, self.outside = self.outside, ""
        page = await self.realm.page(member)
        others = [p for c in self.names if c != member and (p := await self.realm.page(c))]
        if page is not None and not any(p.left.get(member, 0) >= page.stay for p in others):
            for believed in self.believed.values():
                believed.stayed()
        self.realm.add(member)
        self._lead_all()
        self._tell(f"{member} joins the federation")

    async def _spoil_a_record(self) -> None:
        """Somebody deletes or overwrites a record of the ledger by hand."""
        if self.forgetful:
            return  # and nobody else may remember what it said
        where = self._cluster()
        client = self.realm.client(where)
        records = list((await client.list(ConfigMap, namespace="antrea-plus-system")).objects)
        if self.outside:  # or nobody remembers that somebody is away
            records = [r for r in records if r.metadata.name != PAGE_NAME]
        if not records:
            return
        record = self.random.choice(records)
        meta = record.metadata
        if self.random.random() < 0.7:
            await client.delete(ConfigMap, meta.name, meta.namespace)
        else:
            await client.patch(ConfigMap, meta.name, meta.namespace, {"data": {"record": "{"}})
        self._tell(f"{where}: the record {meta.name} is spoilt")
        for name, believed in self.believed.items():
            if meta.name.endswith(name):
                believed.spoilt(where)

    async def _raze(self, cluster: str = "") -> None:
        """A user deletes the namespace with all that is in it, or makes it anew."""
        cluster = cluster or self._cluster()
        client = self.realm.client(cluster)
        if cluster in self.homeless:
            await client.create(Namespace(metadata=Meta(name=SHOP)))
            self.homeless.discard(cluster)
            self._tell(f"{cluster} has its namespace again")
            return
        self.homeless.add(cluster)
        with self.witness.by_hand(cluster):
            await client.delete(Namespace, SHOP, "")
            while self._namespace_stands(cluster):  # noqa: ASYNC110 - nobody else can tell
                await asyncio.sleep(0.1)
        self._tell(f"{cluster} loses its namespace")
        for believed in self.believed.values():
            believed.razed(cluster)

    def _namespace_stands(self, cluster: str) -> bool:
        return self.realm.clusters[cluster].storage.get("namespaces", "", SHOP) is not None

    def _lead_all(self) -> None:
        """Every member is led by one supervisor that lives."""
        for member in self.names:
            leaders = [s for s in self.realm.agents if member in self.realm.crowns[s].members]
            if not leaders and self.realm.agents and member != self.outside:
                self.realm.crown(self.random.choice(sorted(self.realm.agents)), member)
