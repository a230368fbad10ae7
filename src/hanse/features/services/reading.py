"""What a person has to read of a large fleet in order to judge its services.

Every member has the same imports, so that listing them all reads one thing many times. At first
each cluster lists what only it can say, and counts its imports. Then one member's imports are
listed; another's are presumed to be the same as far as it has their namespaces and they are meant
for it, and are listed, too, where their number says otherwise, or where an agent may have said of
an import that its names are not published.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from hanse.features.services.clusters import IMPORTED, PUBLISHED, source_cluster
from hanse.features.services.findings import published_records
from hanse.features.services.names import (
    DOMAIN,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    TO_CLUSTERS,
)
from hanse.features.services.records import parse_cluster_list
from hanse.model.conditions import find_condition
from hanse.model.facts import KindCounted, Role
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.discovery import MANAGED_BY, EndpointSlice
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId, Object
from hanse.model.ownership import OWNER
from hanse.model.snapshot import Watch

NARROWED: Mapping[type[Object], Watch] = {
    ServiceImport: Watch(Role.LOCAL, ServiceImport, labels=f"!{OWNER}"),
    Service: Watch(Role.LOCAL, Service, labels=f"!{SERVICE_NAME}"),
    EndpointSlice: Watch(
        Role.LOCAL,
        EndpointSlice,
        labels=f"{SERVICE_NAME},{SERVICE_NAMESPACE}",
        indexes=(IMPORTED, PUBLISHED),
    ),
}
"""What is listed at first in place of all objects: foreign imports, Services that are not derived,
and slices that members publish on a broker."""

COUNTED: tuple[type[Object], ...] = (ServiceImport,)
"""Kinds whose objects are counted."""
ALL_IMPORTS = Watch(Role.LOCAL, ServiceImport)
PUBLISHING = "publishing"
"""The feature whose agents say of imports that their names are not published."""
MOST_NAMED = 20
"""How many imports are read one by one."""

_Key = tuple[str, str]
_ImporterGroup = tuple[str, frozenset[ClusterId] | None, tuple[ClusterId, ...]]
"""A namespace, the only clusters that import a service, and those that listed its import."""
FEW_IMPORTS = 500
"""Up to how many imports of a cluster are listed, not counted."""

_Reads = Mapping[ClusterId, Collection[Watch]]


def slices_from(source: ClusterId) -> Watch:
    """A Watch of the slices written by Hanse in a cluster whose source is the given exporter."""
    labels = f"{SOURCE_CLUSTER}={source},{MANAGED_BY}={DOMAIN}"
    return Watch(Role.LOCAL, EndpointSlice, labels=labels, indexes=(IMPORTED, PUBLISHED))


def further_reads(
    snapshot: MultiClusterSnapshot, tried: _Reads, failed: _Reads
) -> dict[ClusterId, set[Watch]]:
    """The lists to read in each cluster beyond the first ones, by what is known so far.

    It reads nothing itself, and may name lists that were read. `tried` are those requested before,
    `failed` those without success, which are looked for elsewhere; it is called again until all
    that it names was tried. The result has a set, maybe empty, for each cluster in `tried`.
    """
    found: dict[ClusterId, set[Watch]] = {where: set() for where in tried}
    counts = snapshot.cached_result(imports_by_count)
    limited = _limited_imports(snapshot)
    for where in (*counts.uncounted, *counts.needed(failed)):
        found[where].add(ALL_IMPORTS)
    for where in counts.members:
        if _exports(where, snapshot):
            found[where].add(slices_from(where))
        if ALL_IMPORTS not in found[where] and ALL_IMPORTS not in tried[where]:
            found[where] |= limited.get(where, set())
    for where, watch in _lost_slices(snapshot, counts, tried, failed):
        found[where].add(watch)
    return found


def _lost_slices(
    snapshot: MultiClusterSnapshot,
    counts: "ImportCounts",
    tried: _Reads,
    failed: _Reads,
) -> Iterator[tuple[ClusterId, Watch]]:
    """Pairs of an importer and the Watch of its copies of an exporter that shows no slices itself.

    Exporters whose own slices are still to be read are left out; so are importers where that Watch
    has failed.
    """
    imports = [(w, one) for w in counts.members for one in snapshot.all(w, ServiceImport)]
    if not imports:
        return
    own = {
        (one.metadata.namespace, one.metadata.labels.get(SERVICE_NAME, ""), where)
        for where in counts.members
        for one in snapshot.all(where, EndpointSlice)
        if source_cluster(one) == where
    }
    awaited = {
        w for w in counts.members if _exports(w, snapshot) and slices_from(w) not in tried[w]
    }
    for where, imported in imports:
        for exporter in imported.status.clusters:
            source = exporter.cluster
            shown = (imported.namespace, imported.name, source)
            if source in awaited or shown in own or slices_from(source) in failed[where]:
                continue
            own.add(shown)  # one copy is enough
            yield where, slices_from(source)


def _limited_imports(snapshot: MultiClusterSnapshot) -> dict[ClusterId, set[Watch]]:
    """Watches of single imports of services that are exported to certain clusters only, by cluster.

    By these clusters and their exporters; more than MOST_NAMED for one become a Watch of all
    imports.
    """
    found: dict[ClusterId, set[Watch]] = {}
    for where, export in snapshot.everywhere(ServiceExport):
        chosen = parse_cluster_list(export.metadata.annotations.get(TO_CLUSTERS, ""))
        for cluster in {where, *chosen} if chosen else ():
            named = Watch(Role.LOCAL, ServiceImport, export.namespace, name=export.name)
            found.setdefault(cluster, set()).add(named)
    return {w: few if len(few) <= MOST_NAMED else {ALL_IMPORTS} for w, few in found.items()}


def _exports(where: ClusterId, snapshot: MultiClusterSnapshot) -> bool:
    """Whether a cluster has any ServiceExport."""
    return any(True for _ in snapshot.all(where, ServiceExport))


def imports_by_count(snapshot: MultiClusterSnapshot) -> "ImportCounts":
    """The ImportCounts of a snapshot, a function for `MultiClusterSnapshot.cached_result`."""
    return ImportCounts(snapshot)


class ImportCounts:
    """The members whose imports were counted, and what they are presumed to import."""

    def __init__(self, snapshot: MultiClusterSnapshot) -> None:
        """Take members and counts from KindCounted facts, and collect the imports that were listed.

        It only reads the snapshot; without counted members nothing is collected.
        """
        self._snapshot = snapshot
        counted = [
            fact
            for one in snapshot.by_agent.values()
            for fact in one.facts(KindCounted)
            if fact.kind == ServiceImport.kind
        ]
        self.uncounted = [fact.cluster for fact in counted if fact.total is None]
        """The clusters, brokers among them, whose servers do not count."""
        self.members = {f.cluster: f for f in counted if f.cluster in snapshot.members}
        self._listed = [w for w in self.members if snapshot.listed(w, ServiceImport)]
        self._partial = tuple(w for w in self.members if w not in set(self._listed))
        self._importers: dict[_ImporterGroup, tuple[ClusterId, ...]] = {}
        self.known: dict[_Key, tuple[ClusterId, ServiceImport]] = {}
        """Every import that was listed, with the first member that has it."""
        self._only_there: dict[ClusterId, int] = dict.fromkeys(self._listed, 0)
        """How many imports only one member has."""
        self._limits: dict[_Key, frozenset[ClusterId]] = {}
        if not self.members:
            return
        self._namespaces = {w: _namespaces(w, snapshot) for w in self.members}
        self._foreign = {w: set(_foreign_imports(w, snapshot)) for w in self.members}
        self._unpublished = set(_without_published_names(snapshot))
        self._collect_imports()
        self._limits = dict(self._find_limits())
        self._groups = Counter((key[0], self._limits.get(key)) for key in self.known)

    def importers(
        self, namespace: str, name: str, listed: tuple[ClusterId, ...]
    ) -> tuple[ClusterId, ...]:
        """The members that have an import: those that `listed` it, and those presumed to.

        The latter are counted members whose imports were not listed, which have the namespace, and
        which the exports are meant for; none for a service that no listed import is of.
        """
        if not self._partial or (namespace, name) not in self.known:
            return listed
        limit = self._limits.get((namespace, name))
        group = (namespace, limit, listed)
        if group not in self._importers:
            presumed = (w for w in self._partial if self._is_imported(namespace, limit, w))
            self._importers[group] = tuple(sorted({*listed, *presumed}))
        return self._importers[group]

    def needed(self, failed: _Reads) -> set[ClusterId]:
        """The members whose imports have to be listed since counts do not suffice: first a sample.

        Once the sample is listed, also a few of the members whose count differs by the same number
        from what it makes expect. At any time those whose count says too little, and never those
        where listing failed. Members that are listed already may be among them.
        """
        able = {w for w in self.members if ALL_IMPORTS not in failed[w]}
        if not able:
            return set()
        undecided = {w for w in able if self._is_undecided(w)}
        sample = min(able, key=lambda w: (bool(failed[w]), -(self.members[w].total or 0), w))
        if sample not in self._listed:
            return {*self._listed, *undecided, sample}
        differing: dict[int, list[ClusterId]] = {}
        for where in sorted(able - undecided - {sample}):
            difference = self._difference(where)
            if difference or self._only_there.get(where):
                differing.setdefault(difference, []).append(where)
        chosen = {sample, *undecided}
        for several in differing.values():  # who differs by as much may have the same
            known = [w for w in several if w in self._only_there]
            chosen |= {*known, *[w for w in several if w not in known][: len(self._listed)]}
        return chosen

    def _is_undecided(self, where: ClusterId) -> bool:
        """Whether the count of a member says too little: it is unknown, or of a broker.

        Also if it is small: a few imports are soon read, and some may be paused; and if its agent
        may publish names: only imports whose names it could not publish have the condition
        Published, so that a few of them tell nothing.
        """
        total = self.members[where].total
        if total is None or total <= FEW_IMPORTS or Role.BROKER in self._snapshot.roles(where):
            return True
        return where not in self._unpublished and self._own_count(where) > 0

    def _own_count(self, where: ClusterId) -> int:
        """How many imports a member has by its count, without those that lack our owner label.

        An unknown count is 0.
        """
        return (self.members[where].total or 0) - len(self._foreign[where])

    def _difference(self, where: ClusterId) -> int:
        """How many imports a member has more than it is presumed to have; negative if fewer."""
        expected = sum(n for group, n in self._groups.items() if self._is_imported(*group, where))
        return self._own_count(where) - expected + len(self._foreign[where] & self.known.keys())

    def _is_imported(
        self, namespace: str, limit: frozenset[ClusterId] | None, where: ClusterId
    ) -> bool:
        """Whether a member is presumed to import a service: by its namespaces and the limit.

        Namespaces that are not known count as present.
        """
        spaces = self._namespaces[where]
        return (spaces is None or namespace in spaces) and (limit is None or where in limit)

    def _collect_imports(self) -> None:
        """Fill `known` with imports of ours in the listed members, each with the first that has it.

        Aggregates on a broker are none. Count in `_only_there`, by member, those that no other
        listed member has.
        """
        several: set[_Key] = set()
        for where in self._listed:
            for one in self._snapshot.all(where, ServiceImport):
                meta = one.metadata
                if OWNER in meta.labels and SERVICE_NAMESPACE not in meta.labels:
                    key = (meta.namespace, meta.name)
                    if key in self.known:
                        several.add(key)
                    else:
                        self.known[key] = (where, one)
        for key, (where, _) in self.known.items():
            self._only_there[where] += key not in several

    def _find_limits(self) -> Iterator[tuple[_Key, frozenset[ClusterId]]]:
        """(service, clusters) of each known import that only these have: all its exports name some.

        The exporters are among them. Invalid exports do not count; for exporters whose exports were
        not read, their records on the brokers do.
        """
        limits: dict[_Key, dict[ClusterId, tuple[ClusterId, ...]]] = {}
        unlimited: set[_Key] = set()
        for where, export in self._snapshot.everywhere(ServiceExport) if self.known else ():
            meta = export.metadata
            key = (meta.namespace, meta.name)
            if key in unlimited:
                continue
            valid = find_condition(export.status.conditions, "Valid")
            if valid is not None and valid.status == "False":
                continue
            chosen = parse_cluster_list(meta.annotations.get(TO_CLUSTERS, ""))
            if chosen:
                limits.setdefault(key, {})[where] = chosen
            else:
                unlimited.add(key)
        for key, (_, imported) in self.known.items():
            if key in unlimited:
                continue
            exports = limits.get(key, {})
            if any(one.cluster not in exports for one in imported.status.clusters):
                records = published_records(*key, self._snapshot).records
                exports = {**{r.cluster: r.to for r in records}, **exports}
            if exports and all(exports.values()):
                yield key, frozenset(c for w, to in exports.items() for c in (w, *to))


def _without_published_names(snapshot: MultiClusterSnapshot) -> Iterator[ClusterId]:
    """The members whose agents surely publish no names, by their records on a broker.

    Such a record is Ready and lists features, but not the publishing of names. It is of the agent
    that runs now, else it does not count: that has renewed its Lease on the broker since it
    acquired its Lease in the member. Both times are by the clock of the agent.
    """
    for broker in snapshot.clusters_with_role(Role.BROKER):
        beats = {(one.namespace, one.name): one.renewed for one in snapshot.all(broker, Lease)}
        for record in snapshot.all(broker, ClusterMember):
            agent = snapshot.get(record.name, Lease, AGENT, SYSTEM_NAMESPACE)
            began = agent.acquired if agent is not None else None
            renewed = beats.get((record.namespace, record.name))
            if began is None or renewed is None or renewed <= began:
                continue
            features = record.spec.features
            if record.status.phase == "Ready" and features and PUBLISHING not in features:
                yield record.name


def _namespaces(where: ClusterId, snapshot: MultiClusterSnapshot) -> set[str] | None:
    """The namespaces of a cluster that are not terminating; None where they are not known."""
    if not snapshot.listed(where, Namespace):
        return None
    return {one.name for one in snapshot.all(where, Namespace) if not one.terminating}


def _foreign_imports(where: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[_Key]:
    """Namespace and name of each ServiceImport in a cluster that lacks our owner label."""
    for one in snapshot.all(where, ServiceImport):
        if OWNER not in one.metadata.labels:
            yield (one.metadata.namespace, one.metadata.name)
