"""The replicas of federated StatefulSets, read from the broker."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed
from hanse.cli.inventory import find_broker
from hanse.cli.liveness import BrokerMembers, read_members
from hanse.features.statefulsets.names import ACCEPTED, REBUILT, part_name, replica_name
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.kube.errors import NotFound
from hanse.model.facts import HolderState
from hanse.model.kinds.stateful import (
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    newer_schema_message,
)
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId


class ReplicaView(Struct, frozen=True, rename="camel"):
    """One replica: its cluster, its state, its addresses and DNS names."""

    name: str
    cluster: ClusterId
    state: str
    """`ready`, `not ready`, `missing`, `away` (its cluster is), or `unknown` (a newer schema)."""
    addresses: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class SetView(Struct, frozen=True, rename="camel"):
    """A federated StatefulSet over all clusters."""

    namespace: str
    name: str
    service: str
    replicas: tuple[ReplicaView, ...]
    trouble: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """What roll-outs and scale-downs wait for, by cluster."""

    @property
    def ready(self) -> int:
        """How many replicas are ready."""
        return sum(replica.state == "ready" for replica in self.replicas)


async def read_sets(
    clusters: Sequence[ClusterAccess], namespace: str, names: StatefulSetOptions
) -> list[SetView]:
    """Read all sets of a namespace, or of all for "", from the broker among the clusters.

    Sets that clusters run without shares follow, if they report a problem. Raises `CommandFailed`
    without a broker, or if it does not serve StatefulSetShares.
    """
    broker = await find_broker(clusters)
    async with connect(broker) as client:
        try:
            shares = (await client.list(StatefulSetShares, namespace=namespace)).objects
            parts = (await client.list(StatefulSetPart, namespace=BROKER_NAMESPACE)).objects
        except NotFound:
            raise CommandFailed(
                f"{broker.name} does not serve StatefulSetShares; see `hanse broker init`"
            ) from None
        members = await read_members(client)
    away = _absent_clusters(shares, members)
    reports = [p.spec for p in parts if namespace in ("", p.spec.namespace)]
    known = [set_view(s, reports, away, names) for s in shares]
    return [*known, *sets_without_shares(shares, reports)]


async def accept_cluster(
    clusters: Sequence[ClusterAccess], namespace: str, name: str, cluster: ClusterId
) -> None:
    """Annotate a cluster's StatefulSetPart on the broker: its agent may start empty replicas then.

    Raises `CommandFailed` if there is none, or its annotation does not say that the cluster waits
    for that.
    """
    broker = await find_broker(clusters)
    async with connect(broker) as client:
        report = part_name(namespace, name, cluster)
        try:
            found = await client.read(StatefulSetPart, report, BROKER_NAMESPACE)
        except NotFound:
            raise CommandFailed(
                f"{cluster} does not report on a set {namespace}/{name}; see `hanse statefulsets`"
            ) from None
        uid = found.metadata.annotations.get(REBUILT)
        if not uid:
            raise CommandFailed(
                f"{cluster} does not wait for anything: {namespace}/{name} runs in the cluster "
                "that it was placed in"
            )
        change = {"metadata": {"annotations": {ACCEPTED: uid}}}
        await client.patch(StatefulSetPart, report, BROKER_NAMESPACE, change)


def sets_without_shares(
    shares: Iterable[StatefulSetShares], parts: Iterable[StatefulSetPartSpec]
) -> list[SetView]:
    """Sets that the broker has no shares for, if the part of a cluster reports a problem.

    Parts that have ended do not count. The sets are sorted by namespace and name, without replicas.
    """
    known = {(s.metadata.namespace, s.metadata.name) for s in shares}
    trouble: dict[tuple[str, str], list[str]] = {}
    for part in sorted(parts, key=lambda p: (p.namespace, p.name, p.cluster)):
        if (part.namespace, part.name) not in known and part.ended is None and _part_problem(part):
            messages = trouble.setdefault((part.namespace, part.name), [])
            messages.append(f"{part.cluster}: {_part_problem(part)}")
    return [SetView(space, name, "", (), tuple(texts)) for (space, name), texts in trouble.items()]


def set_view(
    record: StatefulSetShares,
    parts: Iterable[StatefulSetPartSpec],
    away: frozenset[ClusterId],
    names: StatefulSetOptions,
) -> SetView:
    """A set, from its shares and its clusters' parts: replicas, problems, what is waited for.

    Replicas whose cluster is in `away` are away. A set whose shares have a newer schema has no
    replicas, but that as its trouble.
    """
    meta, spec = record.metadata, record.spec
    own = {p.cluster: p for p in parts if (p.namespace, p.name) == (meta.namespace, meta.name)}
    if spec.has_newer_schema:
        return SetView(
            meta.namespace, meta.name, "", (), (f"shares: {newer_schema_message(spec.schema)}",)
        )
    return SetView(
        meta.namespace,
        meta.name,
        spec.service,
        tuple(
            _replica_view(record, share.name, ordinal, own.get(share.name), away, names)
            for share in spec.shares
            for ordinal in range(spec.first_ordinal, spec.first_ordinal + share.replicas)
        ),
        tuple(f"{c}: {text}" for c, p in sorted(own.items()) if (text := _part_problem(p))),
        tuple(f"{c}: {p.waits}" for c, p in sorted(own.items()) if p.waits),
    )


def _part_problem(part: StatefulSetPartSpec) -> str:
    """The problem of a cluster's report: a newer schema, or what it says itself; empty if none."""
    return (
        f"its report: {newer_schema_message(part.schema)}"
        if part.has_newer_schema
        else part.problem
    )


def _replica_view(
    record: StatefulSetShares,
    cluster: ClusterId,
    ordinal: int,
    part: StatefulSetPartSpec | None,
    away: frozenset[ClusterId],
    options: StatefulSetOptions,
) -> ReplicaView:
    """One replica by its cluster's report: ready or not, and missing if it is not reported.

    Whatever is reported, it is away if its cluster is, and else unknown if the report has a newer
    schema. It has DNS names only if the set has a Service, and one with the federation's name only
    if the set is load-balanced.
    """
    meta, spec = record.metadata, record.spec
    name = replica_name(meta.name, cluster, ordinal)
    unread = part is not None and part.has_newer_schema
    replicas = part.replicas if part is not None and not part.has_newer_schema else ()
    report = next((r for r in replicas if r.name == name), None)
    state = "missing" if report is None else "ready" if report.ready else "not ready"
    below = f"{spec.service}.{meta.namespace}"
    known = [f"{name}.{below}.svc.{options.zone}"] if spec.service else []
    if spec.service and spec.load_balanced:
        known.append(f"{name}.{below}.{options.federation}.svc.{options.zone}")
    addresses = report.addresses if report is not None else ()
    state = "away" if cluster in away else "unknown" if unread else state
    return ReplicaView(name, cluster, state, addresses, tuple(known))


def _absent_clusters(
    shares: Iterable[StatefulSetShares], members: BrokerMembers
) -> frozenset[ClusterId]:
    """The clusters that have left, and those with a share but without a Lease that is renewed.

    Only the former if there is no Lease at all, or none could be read.
    """
    records = members.records.objects if members.records is not None else ()
    left = frozenset(record.name for record in records if record.has_left)
    if not members.states:
        return left
    sharing = frozenset(share.name for one in shares for share in one.spec.shares)
    alive = frozenset(one.lease for one in members.states if one.state is HolderState.READY)
    return left | (sharing - alive)
