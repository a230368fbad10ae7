"""Federated StatefulSets: replicas and addresses per cluster, and what is wrong with them."""

from collections.abc import Iterable, Iterator

from hanse.features.statefulsets.disruption import HALTED
from hanse.features.statefulsets.names import DISRUPT_WITHOUT
from hanse.model.broker_namespace import lost_broker_namespace
from hanse.model.facts import Role
from hanse.model.findings import Finding, Ref, Severity, Unknown, cluster_ref, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.acceptance import ACCEPT
from hanse.model.kinds.stateful import (
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    newer_schema_message,
)
from hanse.model.objects import ClusterId, Meta
from hanse.model.remedies import delete_obstacle_commands
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.unread import unread_finding
from hanse.model.view import ClusterPart, FeatureItem, state_of

UPDATE = "update Hanse where it is older: every agent, name server and this program"


class StatefulSetsView:
    """Every set with a StatefulSetShares on a broker."""

    name = "statefulsets"
    reads = (Watch(Role.LOCAL, StatefulSetShares), Watch(Role.LOCAL, StatefulSetPart))

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """`namespace/name` of all sets with shares, or with a report, on any broker."""
        brokers = snapshot.clusters_with_role(Role.BROKER)
        shared = (one for broker in brokers for one in snapshot.all(broker, StatefulSetShares))
        reports = (p.spec for broker in brokers for p in snapshot.all(broker, StatefulSetPart))
        return {
            *(f"{one.namespace}/{one.name}" for one in shared),
            *(f"{one.namespace}/{one.name}" for one in reports),
        }

    def keys_for(self, change: Change) -> Iterable[str]:
        """`namespace/name` of the set of changed shares or a changed report; else none."""
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
        """The item from the first broker that has the shares.

        A set without shares is shown where a cluster that still runs it has a problem; else None.
        """
        namespace, _, name = key.partition("/")
        for broker in snapshot.clusters_with_role(Role.BROKER):
            shares = snapshot.get(broker, StatefulSetShares, name, namespace)
            reports = [p.spec for p in snapshot.all(broker, StatefulSetPart)]
            own = {p.cluster: p for p in reports if (p.namespace, p.name) == (namespace, name)}
            if shares is not None:
                unreported = lost_broker_namespace(broker, snapshot)
                unreported = unreported or snapshot.denied(broker, StatefulSetPart)
                return _set_item(shares, own, snapshot, broker if unreported else "")
            left = {c: p for c, p in own.items() if p.ended is None and p.problem}
            if left:
                return _set_item(_no_shares(namespace, name), left, snapshot)
        return None


def _no_shares(namespace: str, name: str) -> StatefulSetShares:
    """An empty record of shares, for a set that has none."""
    return StatefulSetShares(metadata=Meta(name=name, namespace=namespace))


def _unreadable_item(shares: StatefulSetShares) -> FeatureItem:
    """The item of a set whose record has a newer schema: bad, with the finding RecordTooNew."""
    message = newer_schema_message(shares.spec.schema)
    found = Finding(
        code="RecordTooNew",
        severity=Severity.DEGRADED,
        subject=_subject(shares),
        summary=f"the shares of StatefulSet {shares.namespace}/{shares.name}: {message}",
        remedy=remedy(advice=UPDATE),
    )
    return FeatureItem(
        namespace=shares.namespace,
        name=shares.name,
        state="bad",
        told="cannot be read",
        problems=(f"shares: {message}",),
        findings=(found,),
    )


def _subject(shares: StatefulSetShares) -> Ref:
    """The reference of the set, as the subject of findings."""
    return Ref("StatefulSet", shares.name, shares.namespace)


def _set_item(
    shares: StatefulSetShares,
    reports: dict[str, StatefulSetPartSpec],
    snapshot: MultiClusterSnapshot,
    emptied: ClusterId = "",
) -> FeatureItem:
    """The item of a StatefulSet from its shares and the reports of the clusters.

    Shares with a newer schema give an unreadable item; such reports do not count as ready, nor
    do those of clusters that are lost. `emptied` is a broker that has lost all reports, or whose
    reports could not be read: of clusters without one, it is then not known what is ready.
    """
    if shares.spec.has_newer_schema:
        return _unreadable_item(shares)
    unreadable = {c: p for c, p in reports.items() if p.has_newer_schema}
    readable = {c: p for c, p in reports.items() if not p.has_newer_schema}
    wanted = sum(share.replicas for share in shares.spec.shares)
    lost = frozenset(c for c in readable if snapshot.fault_of(c) is not None)
    ready = sum(part.ready for cluster, part in readable.items() if cluster not in lost)
    parts = tuple(
        _cluster_part(
            share.name,
            share.replicas,
            wanted,
            readable.get(share.name) if share.name not in lost else None,
            known=not emptied or share.name in reports,
        )
        for share in shares.spec.shares
    )
    known = not emptied or all(share.name in reports for share in shares.spec.shares)
    findings = tuple(
        _findings(shares, reports, lost, snapshot)
        if known
        else _unreported_finding(shares, reports, emptied, snapshot)
    )
    return FeatureItem(
        namespace=shares.namespace,
        name=shares.name,
        state=state_of(findings, "good" if wanted else "idle"),
        told=f"{ready if known else '?'}/{wanted} ready",
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
        findings=findings,
    )


def _findings(
    shares: StatefulSetShares,
    reports: dict[str, StatefulSetPartSpec],
    lost: frozenset[str],
    snapshot: MultiClusterSnapshot,
) -> Iterator[Finding]:
    """SetShort, SetHalted, and per report the first of RecordTooNew, SetRefused, SetTrouble."""
    name = f"{shares.namespace}/{shares.name}"
    yield from _short_finding(shares, reports, lost, snapshot)
    yield from _halted_finding(shares, reports, lost)
    for cluster, part in sorted(reports.items()):
        subject = _part_ref(shares, cluster)
        if part.has_newer_schema:
            yield Finding(
                code="RecordTooNew",
                severity=Severity.RISK,
                subject=subject,
                summary=f"{cluster}'s report of StatefulSet {name}: "
                f"{newer_schema_message(part.schema)}",
                remedy=remedy(advice=UPDATE),
            )
        elif part.refused is not None:
            label = f"label namespace {shares.namespace} {ACCEPT}=true --overwrite"
            commands = (snapshot.kubectl(cluster, label),) if ACCEPT in part.problem else ()
            yield Finding(
                code="SetRefused",
                severity=Severity.RISK,
                subject=subject,
                summary=f"{cluster} takes nothing of StatefulSet {name}: {part.problem}",
                remedy=remedy(*commands, advice=f"or ask the administrator of {cluster}"),
            )
        elif part.trouble:
            yield Finding(
                code="SetTrouble",
                severity=Severity.DEGRADED,
                subject=subject,
                summary=f"{cluster}'s part of StatefulSet {name}: {part.trouble}",
                remedy=remedy(
                    *delete_obstacle_commands(cluster, part.trouble, snapshot),
                    advice="do as the message says; `hanse statefulsets` shows the rest",
                ),
                caused_by=(cluster_ref(cluster),),
            )


def _unreported_finding(
    shares: StatefulSetShares,
    reports: dict[str, StatefulSetPartSpec],
    broker: ClusterId,
    snapshot: MultiClusterSnapshot,
) -> Iterator[Finding]:
    """SetShort with certainty Unknown, as the broker has lost the reports of clusters.

    NotReadable instead, if the reports at the broker could not be listed for lack of rights.
    """
    silent = ", ".join(s.name for s in shares.spec.shares if s.name not in reports)
    summary = (
        f"how many replicas of StatefulSet {shares.namespace}/{shares.name} are ready is not known "
        f"in {silent}"
    )
    if snapshot.denied(broker, StatefulSetPart):
        yield unread_finding(_subject(shares), summary, broker, StatefulSetPart, snapshot)
        return
    yield Finding(
        code="SetShort",
        severity=Severity.DEGRADED,
        subject=_subject(shares),
        summary=summary,
        remedy=remedy(advice="clusters report again once the broker has its namespace"),
        certainty=Unknown(f"the reports are gone from {broker}"),
        caused_by=(cluster_ref(broker),),
    )


def _short_finding(
    shares: StatefulSetShares,
    reports: dict[str, StatefulSetPartSpec],
    lost: frozenset[str],
    snapshot: MultiClusterSnapshot,
) -> Iterator[Finding]:
    """SetShort if fewer replicas are ready than the shares have; OUTAGE if none is, else DEGRADED.

    Those of lost clusters count as not ready. What is wrong with a cluster that is behind, or with
    its part of the set, is its cause; of one that reports nothing, as it has left, what is wrong
    with the set on the broker.
    """
    counts = {s.name: (_ready_in(s.name, reports, lost), s.replicas) for s in shares.spec.shares}
    ready, wanted = (sum(count[i] for count in counts.values()) for i in (0, 1))
    if ready >= wanted:
        return
    where = ", ".join(
        f"{cluster} {'lost' if cluster in lost else f'{some}/{all_}'}"
        for cluster, (some, all_) in counts.items()
        if some < all_
    )
    behind = [c for c, (some, all_) in counts.items() if some < all_]
    brokers = snapshot.clusters_with_role(Role.BROKER)
    restarts = [
        snapshot.kubectl(c, f"delete pod {one.name}", shares.namespace)
        for c in behind
        if c not in lost and c in reports
        for one in reports[c].replicas
        if not one.ready
    ]
    yield Finding(
        code="SetShort",
        severity=Severity.DEGRADED if ready else Severity.OUTAGE,
        subject=_subject(shares),
        summary=f"StatefulSet {shares.namespace}/{shares.name} has {ready} of {wanted} replicas "
        f"ready: {where}",
        remedy=remedy(
            *restarts,
            advice="which starts it anew; "
            * bool(restarts)
            + "`hanse statefulsets` and `kubectl describe pod` say why pods are not ready; "
            f"roll-outs go on without clusters that annotation {DISRUPT_WITHOUT} of the set names",
        ),
        caused_by=(
            *(cluster_ref(c) for c in behind if c in lost),
            *(_part_ref(shares, c) for c in behind if c in reports and _is_hindered(reports[c])),
            *(_part_ref(shares, broker) for broker in brokers if {*behind} - lost - {*reports}),
        ),
    )


def _part_ref(shares: StatefulSetShares, cluster: ClusterId) -> Ref:
    """A cluster's part of a set, as the subject of findings."""
    return Ref("StatefulSet", shares.name, shares.namespace, cluster)


def _is_hindered(part: StatefulSetPartSpec) -> bool:
    """Whether a report says why replicas do not run: refused, in trouble, or of a newer schema."""
    return part.has_newer_schema or part.refused is not None or bool(part.trouble)


def _halted_finding(
    shares: StatefulSetShares, reports: dict[str, StatefulSetPartSpec], lost: frozenset[str]
) -> Iterator[Finding]:
    """One SetHalted if a roll-out waits for replicas that are not ready, or for lost clusters.

    Only reports of clusters that are not lost count; the first by name of those that wait is its
    subject. What is wrong with the set or with lost clusters is its cause.
    """
    waiting = {
        cluster: part.waits
        for cluster, part in sorted(reports.items())
        if cluster not in lost and part.waits in HALTED
    }
    if not waiting:
        return
    first = next(iter(waiting))
    yield Finding(
        code="SetHalted",
        severity=Severity.DEGRADED,
        subject=_part_ref(shares, first),
        summary=f"the roll-out of StatefulSet {shares.namespace}/{shares.name} has halted in "
        f"{', '.join(waiting)}: {waiting[first].removeprefix('the roll-out ')}",
        remedy=remedy(
            advice="`hanse statefulsets` shows what it waits for; it goes on without clusters that "
            f"annotation {DISRUPT_WITHOUT} of the set names"
        ),
        caused_by=(*(cluster_ref(c) for c in sorted(lost)), _subject(shares)),
    )


def _ready_in(cluster: str, reports: dict[str, StatefulSetPartSpec], lost: frozenset[str]) -> int:
    """The ready replicas that a cluster reports; 0 if it is lost, or the schema is newer."""
    part = reports.get(cluster)
    return 0 if part is None or cluster in lost or part.has_newer_schema else part.ready


def _cluster_part(
    cluster: str, replicas: int, wanted: int, report: StatefulSetPartSpec | None, *, known: bool
) -> ClusterPart:
    """A cluster's part: good if all its replicas are ready, warn if some or unknown, else bad.

    `share` is its percentage of the wanted replicas; a cluster without report has none ready,
    unless its report is lost, so that nothing is `known`.
    """
    ready = report.ready if report is not None else 0
    return ClusterPart(
        cluster=cluster,
        state="good" if ready == replicas else "warn" if ready or not known else "bad",
        text=f"{ready if known else '?'}/{replicas}",
        share=round(100 * replicas / wanted) if wanted else 0,
        ready=ready,
        all=replicas,
    )


def _format_replicas(part: StatefulSetPartSpec) -> str:
    """The names of the first 50 replicas, with addresses, and `not ready` where they are not."""
    return ", ".join(
        one.name
        + (f" ({', '.join(one.addresses)})" if one.addresses else "")
        + ("" if one.ready else " not ready")
        for one in part.replicas[:50]
    )
