"""The section of federated StatefulSets: replicas and addresses per cluster."""

from collections.abc import Iterable

from hanse.model.facts import Role
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.stateful import (
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    newer_schema_message,
)
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import ClusterPart, FeatureItem, worst


class StatefulSetsSection:
    """Every set with a StatefulSetShares on a broker."""

    name = "statefulsets"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """`namespace/name` of all StatefulSetShares on the brokers."""
        return {
            f"{one.namespace}/{one.name}"
            for broker in snapshot.clusters_with_role(Role.BROKER)
            for one in snapshot.all(broker, StatefulSetShares)
        }

    def keys_for(self, change: Change) -> Iterable[str]:
        """The StatefulSet of changed shares or of a changed part; none for anything else."""
        if isinstance(change, FactChange):
            return ()
        match change.object:
            case StatefulSetShares() as shares:
                return (f"{shares.namespace}/{shares.name}",)
            case StatefulSetPart(spec=spec):
                return (f"{spec.namespace}/{spec.name}",)
            case _:
                return ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> FeatureItem | None:
        """The item from the first broker that has the shares; None if no broker has them."""
        namespace, _, name = key.partition("/")
        for broker in snapshot.clusters_with_role(Role.BROKER):
            shares = snapshot.get(broker, StatefulSetShares, name, namespace)
            if shares is not None:
                reports = [p.spec for p in snapshot.all(broker, StatefulSetPart)]
                own = {p.cluster: p for p in reports if (p.namespace, p.name) == (namespace, name)}
                return _set_item(shares, own)
        return None


def _unreadable_item(shares: StatefulSetShares) -> FeatureItem:
    """The item of a set whose record has a newer schema."""
    return FeatureItem(
        namespace=shares.namespace,
        name=shares.name,
        state="bad",
        told="cannot be read",
        problems=(f"shares: {newer_schema_message(shares.spec.schema)}",),
    )


def _set_item(shares: StatefulSetShares, reports: dict[str, StatefulSetPartSpec]) -> FeatureItem:
    """The item of a StatefulSet from its shares and the reports of the clusters.

    Shares with a newer schema give an unreadable item; such reports do not count as ready.
    """
    if shares.spec.has_newer_schema:
        return _unreadable_item(shares)
    unreadable = {c: p for c, p in reports.items() if p.has_newer_schema}
    readable = {c: p for c, p in reports.items() if not p.has_newer_schema}
    wanted = sum(share.replicas for share in shares.spec.shares)
    ready = sum(part.ready for part in readable.values())
    parts = tuple(
        _cluster_part(share.name, share.replicas, wanted, readable.get(share.name))
        for share in shares.spec.shares
    )
    return FeatureItem(
        namespace=shares.namespace,
        name=shares.name,
        state=worst(part.state for part in parts) if wanted else "idle",
        told=f"{ready}/{wanted} ready",
        facts=(
            ("Service", shares.spec.service),
            ("Load balancers", "one for each replica" if shares.spec.load_balanced else "none"),
            *(
                (f"{cluster}", _format_replicas(part))
                for cluster, part in sorted(readable.items())
                if part.replicas
            ),
        ),
        parts=parts,
        problems=(
            *(
                f"{c}: its report: {newer_schema_message(p.schema)}"
                for c, p in sorted(unreadable.items())
            ),
            *(f"{c}: {p.problem}" for c, p in sorted(readable.items()) if p.problem),
        ),
    )


def _cluster_part(
    cluster: str, replicas: int, wanted: int, report: StatefulSetPartSpec | None
) -> ClusterPart:
    """A cluster's part: good if all its replicas are ready, warn if some, else bad.

    `share` is its percentage of the wanted replicas; a cluster without report has none ready.
    """
    ready = report.ready if report is not None else 0
    return ClusterPart(
        cluster=cluster,
        state="good" if ready == replicas else "warn" if ready else "bad",
        text=f"{ready}/{replicas}",
        share=round(100 * replicas / wanted) if wanted else 0,
    )


def _format_replicas(part: StatefulSetPartSpec) -> str:
    """The first replicas by name, with addresses and those that are not ready."""
    return ", ".join(
        one.name
        + (f" ({', '.join(one.addresses)})" if one.addresses else "")
        + ("" if one.ready else " not ready")
        for one in part.replicas[:50]
    )
