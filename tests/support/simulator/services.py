"""Exported services: what their users do, and what they rely on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from hanse.kube.errors import AlreadyExists, NotFound
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.hanse import Profile
from hanse.model.kinds.multicluster import (
    ImportedPort,
    ServiceExport,
    ServiceImport,
    ServiceImportSpec,
)
from hanse.model.objects import ClusterId, Meta
from tests.scenarios.services import ServicesScenario
from tests.support.federation import install_crds
from tests.support.simulator.addresses import AddressesKept, PodsBehindAddresses
from tests.support.simulator.exports import CAUGHT_UP, LAGGED, NAMES, Exported, LawOfExports
from tests.support.simulator.fleet import LEASE, RENEWAL, Fleet, find
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import BROKER, CLUSTERS, step
from tests.support.simulator.silence import DeadLeftOut

PORTS = {"http": {"http": 80}, "two": {"http": 80, "tls": 443}, "other": {"http": 8080}}
CONVERGED = 90.0
"""Seconds after which every cluster answers what users changed, once nothing is disturbed."""
REPLACED = 2 * LAGGED
"""Seconds within which a cluster has seen that a Service was made again, also with late watches."""

_Pair = tuple[ClusterId, ClusterId, str]
"""Who is asked, whose export, and its name."""


class Services:
    """Users export services of the same names from several clusters."""

    name = "services"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._users = ServicesScenario(fleet)
        self.edited: dict[ClusterId, float] = {}
        """When somebody last edited imported objects in a cluster by hand."""
        self.changed: dict[tuple[ClusterId, str], float] = {}
        """When users last changed what a cluster exports under a name: laws see it only later."""
        self.replaced: dict[tuple[ClusterId, str], float] = {}
        """When a Service was last deleted and made again: its cluster may see both later."""
        self._deleted: dict[tuple[ClusterId, str], float] = {}
        self.served: dict[tuple[ClusterId, str, bool], float] = {}
        """When a cluster last got a headless Service of a name, or another one."""
        self.profile_changes = 0

    async def open(self) -> None:
        await self._users.open(lease=int(LEASE.total_seconds()))

    async def heal(self) -> None:
        """Nothing: what users do stands."""

    def laws(self) -> Sequence[Law]:
        return (
            ExportsAnswered(self._fleet, self),
            DeadLeftOut(self._fleet, self.edited),
            AddressesKept(self._fleet, self),
            PodsBehindAddresses(self._fleet, self),
            ExportStatus(self._fleet),
        )

    def is_owned(self, cluster: ClusterId, name: str) -> bool:
        """Whether a person's own import has the name in a cluster."""
        return (cluster, ServiceImport, self._fleet.namespace, name) in self._fleet.users

    def touched(self, cluster: ClusterId) -> float:
        """When somebody last changed imports in a cluster, or it was restored, left or joined."""
        fleet = self._fleet
        changes = (self.edited, fleet.restored_at, fleet.membership_changed)
        return max(change.get(cluster, 0) for change in changes)

    def deleted(self, cluster: ClusterId, name: str) -> float:
        """When a person last deleted the Service of an export; 0 if nobody did."""
        key = (cluster, name)
        return max(self._deleted.get(key, 0.0), self.replaced.get(key, 0.0))

    @property
    def state(self) -> object:
        """What is another value once people have done anything to imports."""
        return self.profile_changes, list(self.edited.items()), self._fleet.users.version

    @step(8, opening=True, cluster=CLUSTERS, name=NAMES, headless=(False, False, True))
    async def offer(self, cluster: ClusterId, name: str, headless: bool) -> None:
        """A Service with a ready pod, exported."""
        await self._serve(cluster, name, "http", headless=headless)
        with suppress(AlreadyExists):
            await self._users.export(cluster, name)

    @step(2, cluster=CLUSTERS, name=NAMES)
    async def export(self, cluster: ClusterId, name: str) -> None:
        self.changed[cluster, name] = self._fleet.now
        await self._users.export(cluster, name)

    @step(2, cluster=CLUSTERS, name=NAMES)
    async def unexport(self, cluster: ClusterId, name: str) -> None:
        self.changed[cluster, name] = self._fleet.now
        await self._users.unexport(cluster, name)

    @step(3, cluster=CLUSTERS, name=NAMES, ports=("http", "http", "two", "other"))
    async def serve(self, cluster: ClusterId, name: str, ports: str) -> None:
        """A Service with one ready pod; an existing one is replaced."""
        await self._serve(cluster, name, ports, headless=False)

    async def _serve(self, cluster: ClusterId, name: str, ports: str, headless: bool) -> None:
        with suppress(NotFound):
            await self._users.unserve(cluster, name)
            self.replaced[cluster, name] = self._fleet.now
        self.served[cluster, name, headless] = self._fleet.now
        await self._users.serve(cluster, name, PORTS[ports], headless=headless)
        await self.pods(cluster, name, 1, True)

    @step(1, cluster=CLUSTERS, name=NAMES)
    async def unserve(self, cluster: ClusterId, name: str) -> None:
        self.changed[cluster, name] = self._deleted[cluster, name] = self._fleet.now
        await self._users.unserve(cluster, name)

    @step(4, cluster=CLUSTERS, name=NAMES, number=(0, 1, 3), ready=(True, True, False))
    async def pods(self, cluster: ClusterId, name: str, number: int, ready: bool) -> None:
        """The pods of a service change."""
        self.changed[cluster, name] = self._fleet.now
        slot = "abcdef"[CLUSTERS.index(cluster) + len(CLUSTERS) * NAMES.index(name)]
        await self._users.pods(cluster, name, *[ready] * number, slot=slot)

    @step(1, cluster=CLUSTERS, name=NAMES)
    async def edit_import(self, cluster: ClusterId, name: str) -> None:
        """Somebody edits an import that is ours."""
        change = {"spec": {"sessionAffinity": "ClientIP", "ports": []}}
        if not self.is_owned(cluster, name):
            self.edited[cluster] = self._fleet.now
            space = self._fleet.namespace
            await self._fleet.hand(cluster).patch(ServiceImport, name, space, change)

    @step(1, cluster=CLUSTERS, name=NAMES)
    async def delete_import(self, cluster: ClusterId, name: str) -> None:
        """Somebody deletes an import that is ours."""
        if not self.is_owned(cluster, name):
            self.edited[cluster] = self._fleet.now
            await self._fleet.hand(cluster).delete(ServiceImport, name, self._fleet.namespace)

    @step(1, cluster=CLUSTERS, name=NAMES)
    async def own_import(self, cluster: ClusterId, name: str) -> None:
        """A person makes an import of their own, by a name that we would use."""
        meta = Meta(name=name, namespace=self._fleet.namespace)
        spec = ServiceImportSpec(type="ClusterSetIP", ports=(ImportedPort(port=7),))
        await self._fleet.admin(cluster).create(ServiceImport(metadata=meta, spec=spec))

    @step(1, searched=True, cluster=CLUSTERS, seconds=(1, 20, 60))
    async def lose_crd(self, cluster: ClusterId, seconds: int) -> None:
        """Somebody deletes the definition of ServiceImports, and with it all, and installs it."""
        fleet, hand = self._fleet, self._fleet.hand(cluster)
        fleet.users.forget(lambda place: place[:2] == (cluster, ServiceImport))
        self.edited[cluster] = fleet.now
        await hand.delete(CustomResourceDefinition, ServiceImport.kind.definition, "")
        await asyncio.sleep(seconds)
        await install_crds(fleet, cluster, ServiceImport)
        self.edited[cluster] = fleet.now

    @step(1, profile=("lighthouse", "kep-1645"))
    async def set_profile(self, profile: Profile) -> None:
        self.profile_changes += 1
        await self._users.set_profile(profile)


class ExportsAnswered(LawOfExports):
    """A cluster's answers are what users export, and stay so under faults of others."""

    name = "exports-answered"
    sentence = (
        "A live export is answered in every live cluster, stays answered whatever fails elsewhere, "
        f"and once it is deleted is answered nowhere; {CONVERGED:.0f} s after the last disturbance "
        "all clusters answer exactly what is exported, by the type of the oldest export; where the "
        "broker's clock was an hour ahead, by that of the same one."
    )

    def __init__(self, fleet: Fleet, services: Services) -> None:
        super().__init__(fleet)
        self._services = services
        self._changed: dict[tuple[str, str], tuple[object, float]] = {}
        """What a cluster exports under a name, and since when."""
        self._types: dict[tuple[ClusterId, str, bool], float] = {}
        """When a cluster was last seen to export a name as headless, or not."""
        self._present: dict[str, set[tuple[ClusterId, str, bool]]] = {}
        """The exports of a name, as they were judged last."""
        self._state: object = None
        """What the last verdict on all answers rests on, besides time."""
        self._of_name: dict[str, dict[ClusterId, Exported]] = {}
        self._waiting: list[tuple[_Pair, float]] = []
        """The answers on which time may make another verdict, and not before when."""
        self._seen: dict[tuple[str, str, str], tuple[frozenset[str], float, float]] = {}
        """What was answered rightly, since when that is exported, and when imports in the asking
        cluster were last changed by hand."""

    async def observe(self) -> AsyncIterator[str]:
        state = (self._exports.state, self._services.state, self.fleet.answers_state)
        now, before = self.fleet.now, self._waiting
        if state != self._state or self._types_differ():
            self._state = state
            before = [(pair, now) for name in NAMES for pair in await self._pairs(name)]
        self._waiting = []
        for pair, due in before:
            if due > now:
                self._waiting.append((pair, due))
            elif seen := self._answered(*pair):
                yield seen

    def _types_differ(self) -> bool:
        """Whether a name was ever exported by two types: which of them counts depends on time."""
        return len({(of, headless) for _, of, headless in self._types}) > len(self._present)

    async def _pairs(self, name: str) -> list[_Pair]:
        """The pairs of clusters that are judged about a name; notes what is exported, and when."""
        exports = self._of_name[name] = await self._exports.of(name)
        types = await self._possible_types(name)
        names = self.fleet.names
        for exporter in names:
            exported = exports.get(exporter)
            wanted = exported.addresses if exported is not None else frozenset()
            rules = (len(types), self._services.profile_changes)
            acted = self._services.changed.get((exporter, name))
            joined = self.fleet.membership_changed.get(exporter)  # replaced: published anew
            state = (wanted, rules, self._services.is_owned(exporter, name), acted, joined)
            if self._changed.get((exporter, name), ("", 0))[0] != state:
                self._changed[exporter, name] = (state, self.fleet.now)
                if joined is not None:
                    for asker in names:
                        self._seen.pop((asker, exporter, name), None)
        if await self._exports.profile() != "lighthouse" or len(types) > 1:
            return []  # which addresses are used is judged at rest
        return [(asker, exporter, name) for asker in names for exporter in names]

    async def _possible_types(self, name: str) -> set[bool]:
        """The types of exports, also of one whose cluster could not tell yet that it is gone."""
        fleet, now = self.fleet, self.fleet.now
        possible = (await self._exports.possible(name)).items()
        present = {(cluster, name, exported.headless) for cluster, exported in possible}
        for export in present | self._present.get(name, set()):  # those before stood until now
            self._types[export] = now
        for export, when in self._services.served.items():  # also for a moment between two looks
            self._types[export] = max(self._types.get(export, when), when)
        self._present[name] = present
        return {
            headless
            for (cluster, of, headless), seen in self._types.items()
            if of == name and now - max(seen, fleet.works_since(cluster, BROKER)) < CAUGHT_UP
        }

    def _answered(self, asker: ClusterId, exporter: ClusterId, name: str) -> str:
        """What contradicts the law in the answer of one cluster about another's export."""
        if self._is_excused(asker, exporter, name):
            return ""
        fleet, key, exports = self.fleet, (asker, exporter, name), self._of_name[name]
        answer = fleet.ask(asker, self._name_of(exporter, name))
        wanted = exports[exporter].addresses if exporter in exports else frozenset[str]()
        since, touched = self._changed[exporter, name][1], self._services.touched(asker)
        if wanted and answer.records == wanted:
            if self._may_be_of_before(asker, exporter, name):
                self._waiting.append((key, 0.0))
            else:
                self._seen[key] = (wanted, since, touched)
            return ""
        works = [fleet.works_since(other, BROKER) for other in (exporter, asker, *exports)]
        calm = fleet.now - max(since, touched, *works)
        if answer.records == wanted and answer.code != "SERVFAIL":
            if calm > CONVERGED:  # what is deleted stays so once it is gone everywhere
                self._seen[key] = (wanted, since, touched)
            else:
                self._waiting.append((key, max(since, touched) + CONVERGED))
            return ""
        self._waiting.append((key, 0.0))
        if answer.code == "SERVFAIL":
            is_mute = fleet.now - fleet.works_since(asker) > CONVERGED
            return f"{asker} answers nothing at all" if is_mute else ""
        seen = f"{asker} answers {sorted(answer.records)} for {name} of {exporter}"
        expired = asker != exporter and self._may_be_expired(exporter)
        if fleet.now - touched < CONVERGED or expired or self._was_changed_unseen(asker):
            self._seen.pop(key, None)
        if self._seen.get(key) == (wanted, since, touched) and since < fleet.now:
            return f"{seen}, which was {sorted(wanted)} and is exported all the time"
        if calm > CONVERGED:
            return f"{seen} and not {sorted(wanted)} since {calm:.0f} s"
        return ""

    def _may_be_of_before(self, asker: ClusterId, exporter: ClusterId, name: str) -> bool:
        """Whether a right answer may be of a membership, or of a Service, before those of now.

        One that a Service made again has, too, goes for the moment in which there was none.
        """
        replaced = self._services.replaced.get((exporter, name), -REPLACED)
        is_unseen = self.fleet.now - replaced < REPLACED
        return is_unseen or self._exports.may_be_of_before(asker, exporter)

    def _is_excused(self, asker: ClusterId, exporter: ClusterId, name: str) -> bool:
        """Whether nobody can say what is right: a person's own import has the name, or who belongs
        to the broker is disputed."""
        is_owned = self._services.is_owned(asker, name)
        return is_owned or asker in self.fleet.left or self.fleet.is_disputed(exporter)

    def _was_changed_unseen(self, asker: ClusterId) -> bool:
        """Whether an agent may see only now that imports of its cluster were edited or restored."""
        works = self.fleet.works_since(asker)
        changes = (self._services.edited, self.fleet.restored_at)
        changed = max(change.get(asker, 0) for change in changes)
        return 0 < changed <= works and self.fleet.now - works < CAUGHT_UP

    def _may_be_expired(self, exporter: ClusterId) -> bool:
        """Whether others may take a cluster for dead."""
        return self.fleet.silent_for(exporter) > LEASE.total_seconds() - RENEWAL

    def _name_of(self, exporter: ClusterId, name: str) -> str:
        return f"{exporter}.{name}.{self.fleet.namespace}.svc.clusterset.local"

    async def _contradictions(
        self, name: str, exports: dict[ClusterId, Exported], profile: str, oldest: Exported | None
    ) -> AsyncIterator[str]:
        """What contradicts the law about a name in any cluster, if this export is the oldest."""
        for asker in self.fleet.names:
            if self._services.is_owned(asker, name) or asker in self.fleet.left:
                continue
            answer = self.fleet.ask(asker, self._name_of("x", name).removeprefix("x."))
            usable = [c for c in exports if exports[c].addresses]
            if profile == "lighthouse" and oldest is not None:
                usable = [c for c in usable if exports[c].headless == oldest.headless]
            if profile == "kep-1645" and oldest is not None and not oldest.headless:
                usable = [*exports]  # the address of the import stands without ready endpoints
            if bool(answer.records) != bool(usable):
                yield f"{asker} answers {answer} for {name}, which {usable} export"
            async for seen in self._imported(asker, name, exports, oldest, profile):
                yield seen

    async def _imported(
        self,
        cluster: ClusterId,
        name: str,
        exports: dict[ClusterId, Exported],
        oldest: Exported | None,
        profile: str,
    ) -> AsyncIterator[str]:
        """The import has the type of the oldest export, and the ports of its profile."""
        found = find(await self.fleet.objects(cluster, ServiceImport, self.fleet.namespace), name)
        if found is None or oldest is None:
            if found is not None or oldest is not None:
                yield f"the import {name} in {cluster} is {found}, exported by {[*exports]}"
            return
        admitted = [e for e in exports.values() if e.headless == oldest.headless]
        common = frozenset.intersection(*(e.ports for e in admitted))
        every = frozenset.union(*(e.ports for e in exports.values()))
        ports = {(p.get("name", ""), p["port"]) for p in found["spec"]["ports"]}
        right = ports == common if profile == "lighthouse" else oldest.ports <= ports <= every
        affinity = found["spec"].get("sessionAffinity", "None")
        type_ = "Headless" if oldest.headless else "ClusterSetIP"
        if not right or affinity != "None" or found["spec"]["type"] != type_:
            yield f"the import {name} in {cluster} is {found['spec']}, of {exports}"


class ExportStatus(LawOfExports):
    """The status of an export is true."""

    name = "export-status"
    sentence = "The conditions of an export say what is so: Valid, Ready, Conflict."

    async def _contradictions(
        self, name: str, exports: dict[ClusterId, Exported], profile: str, oldest: Exported | None
    ) -> AsyncIterator[str]:
        """What contradicts the law in the exports of a name, if this one is the oldest."""
        for cluster in self.fleet.names:
            found = await self.fleet.objects(cluster, ServiceExport, self.fleet.namespace)
            export = find(found, name)
            if export is None or cluster in self.fleet.left:
                continue
            conditions = export.get("status", {}).get("conditions", ())
            reported = {c["type"]: c["status"] for c in conditions}
            valid = cluster in exports
            wanted = {"Valid": str(valid)}
            if valid and oldest is not None:
                same = exports[cluster].headless == oldest.headless
                wanted["Ready"] = str(same or profile == "kep-1645")
            if {n: reported.get(n) for n in wanted} != wanted:
                yield f"{name} of {cluster} reports {reported}, not {wanted}"
