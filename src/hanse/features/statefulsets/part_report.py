"""The report of this cluster about its part of a set: a StatefulSetPart at the broker."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from hanse.features.statefulsets.acceptance import Terms
from hanse.features.statefulsets.identity import cluster_uid
from hanse.features.statefulsets.load_balancers import list_pods
from hanse.features.statefulsets.names import POD_REVISION, REVISION, part_name, replica_name
from hanse.features.statefulsets.owned_objects import running_stateful_set
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.features.statefulsets.tombstones import add_created_uid
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.stateful import (
    LIMITED_SCHEMA,
    MAX_TEXT_LENGTH,
    NamedPort,
    Refusal,
    Replica,
    ReplicaNames,
    StatefulSetPart,
    StatefulSetPartSpec,
)
from hanse.model.objects import ClusterObjectRef, Meta, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, Key
from hanse.model.snapshot import Snapshot

STARTING = timedelta(seconds=2)
"""How long a new pod may take to become ready before it is counted without that."""


class PartProgress(Struct, frozen=True):
    """How far this cluster's part of a set has come."""

    share: int
    """The replicas that it runs or is about to."""
    settled: bool
    """Whether these are its share exactly, by shares that grant the set's rebalance wish."""
    complete: bool
    """Whether all are ready and have the newest template."""
    returned: int
    """The permits that were given back."""
    waits: str
    applied: str = ""
    """The set's revision that its StatefulSet has or gets; empty: it has none."""
    stateful_set: StatefulSet | None = None
    """Its StatefulSet; None if it has none, or does not take a released one."""
    awaits_status: bool = False
    """Whether replaced replicas count once the StatefulSet's status has them: one report less."""


def replica_names(submitted: SubmittedSet, service: Service | None) -> ReplicaNames:
    """The governing Service and its ports, and whether replicas have load balancers.

    `unready` if replicas have names before they are ready, as the Service says or without one.
    """
    ports = service.spec.ports if service is not None else ()
    return ReplicaNames(
        service=submitted.spec.service_name,
        ports=tuple(NamedPort(port=p.port, name=p.name, protocol=p.protocol) for p in ports),
        load_balanced=submitted.load_balanced,
        unready=service is None or service.spec.publish_not_ready_addresses,
    )


def build_report(
    submitted: SubmittedSet,
    names: ReplicaNames,
    progress: PartProgress,
    desired: list[Desired],
    snapshot: Snapshot,
    broker_namespace: str,
    terms: Terms,
    before: StatefulSetPartSpec | None = None,
) -> StatefulSetPart:
    """The report of this cluster's part: share, replicas, problems, and uids of its StatefulSets.

    The share is the one that this cluster runs or is about to, not what the StatefulSet says. Pods
    that are starting are not counted, and not ready, unless they are ready and `before`, the
    previous report, has them as ready.
    """
    owned, applied = progress.stateful_set, progress.applied
    pods = dict(list_pods(owned, snapshot)) if owned is not None else {}
    ready = {r.name for r in before.replicas if r.ready} if before is not None else set[str]()
    starting = frozenset(
        ordinal
        for ordinal, pod in pods.items()
        if is_starting(pod, snapshot.now, awaits_status=progress.awaits_status)
        and not (pod.ready and pod.name in ready)
    )
    counted = {ordinal: pod for ordinal, pod in pods.items() if ordinal not in starting}
    counts = _count_pods(owned, counted, applied, before) if owned is not None else _PodCounts()
    spec = StatefulSetPartSpec(
        namespace=submitted.namespace,
        name=submitted.name,
        cluster=snapshot.local,
        set_uid=submitted.uid,
        cluster_uid=cluster_uid(snapshot),
        share=progress.share,
        rebalanced=submitted.rebalance if progress.settled else _rebalanced(before),
        applied=applied,
        revision=applied if progress.complete else "",
        current_replicas=counts.current,
        updated_replicas=counts.updated,
        available_replicas=counts.available,
        replicas=tuple(_list_replicas(submitted, owned, pods, starting, before, snapshot)),
        names=names,
        trouble="; ".join(_problems(submitted, owned, desired, snapshot))[:MAX_TEXT_LENGTH],
        returned=progress.returned,
        waits=progress.waits[:1024],
        made=add_created_uid(owned, before.made if before is not None else ()),
        **_reported_terms(terms, submitted, owned),
    )
    name = part_name(submitted.namespace, submitted.name, snapshot.local)
    return StatefulSetPart(metadata=Meta(name=name, namespace=broker_namespace), spec=spec)


def _reported_terms(
    terms: Terms, submitted: SubmittedSet, owned: StatefulSet | None
) -> dict[str, Any]:
    """The report's fields `refused`, `most` and `schema`.

    Empty if the set is not refused and all wanted replicas are taken.
    """
    wanted = submitted.spec.replicas
    running = owned.spec.replicas if owned is not None else 0
    most = terms.replicas_of(max(wanted, running), running)
    if terms.refused is None and most >= wanted:
        return {}
    refusal = None
    if terms.refused is not None:
        field, reason = terms.refused.field[:1024], terms.refused.reason[:4096]
        refusal = Refusal(field=field, reason=reason)
    return {"refused": refusal, "most": most, "schema": LIMITED_SCHEMA}


def _rebalanced(before: StatefulSetPartSpec | None) -> str:
    """The rebalance wish in the previous report; empty without one."""
    return before.rebalanced if before is not None else ""


class _PodCounts(Struct, frozen=True):
    """How many pods are of the current revision, of the newest one, and ready for long enough."""

    current: int = 0
    updated: int = 0
    available: int = 0


def is_starting(pod: Pod, now: datetime, *, awaits_status: bool) -> bool:
    """Whether a pod is younger than `STARTING` and not ready; with `awaits_status` even if ready.

    The report leaves it out until then, so that most pods cause one change.
    """
    created = pod.metadata.creation_timestamp
    is_new = created is not None and timedelta() <= now - created < STARTING
    return is_new and (awaits_status or not pod.ready)


def _count_pods(
    owned: StatefulSet, pods: Mapping[int, Pod], applied: str, before: StatefulSetPartSpec | None
) -> _PodCounts:
    """The numbers of current, updated and available replicas, by pods that are not terminating.

    Until a new version of the StatefulSet is observed, updated ones, and with `minReadySeconds`
    available ones, are as reported before; none is updated to a new template.
    """
    status = owned.status
    staying = [pod for pod in pods.values() if pod.metadata.deletion_timestamp is None]
    revisions = [pod.metadata.labels.get(POD_REVISION) for pod in staying]
    current, ready = revisions.count(status.current_revision), sum(pod.ready for pod in staying)
    is_delayed = bool(owned.spec.min_ready_seconds)
    is_applied = owned.metadata.annotations.get(REVISION, "") == applied
    if is_applied and status.observed_generation >= owned.metadata.generation:
        updated = revisions.count(status.update_revision)
        return _PodCounts(current, updated, status.available_replicas if is_delayed else ready)
    is_same = before is not None and before.applied == applied
    updated = before.updated_replicas if before is not None and is_same else 0
    available = before.available_replicas if before is not None else 0
    return _PodCounts(current, updated, available if is_delayed else ready)


def _list_replicas(
    submitted: SubmittedSet,
    owned: StatefulSet | None,
    pods: Mapping[int, Pod],
    starting: frozenset[int],
    before: StatefulSetPartSpec | None,
    snapshot: Snapshot,
) -> Iterator[Replica]:
    """The replicas that have a pod, by ordinal, with readiness and load balancer addresses.

    Also those that were reported and are still wanted, not ready; one that is starting is not
    ready.
    """
    first = owned.spec.ordinals.start if owned is not None and owned.spec.ordinals else 0
    wanted = range(owned.spec.replicas) if owned is not None else ()
    reported = {replica.name for replica in before.replicas} if before is not None else set()
    for ordinal in sorted({*pods, *wanted}):
        pod = pods.get(ordinal)
        name = replica_name(submitted.name, snapshot.local, first + ordinal)
        if pod is None and name not in reported:
            continue
        is_up = pod is not None and pod.ready and pod.metadata.deletion_timestamp is None
        ready = is_up and ordinal not in starting
        yield Replica(name=name, ready=ready, addresses=_addresses(name, submitted, snapshot))


def _addresses(replica: str, submitted: SubmittedSet, snapshot: Snapshot) -> tuple[str, ...]:
    """Up to 16 addresses of a replica's load balancer here, each an IP or else a host name.

    None if the set does not ask for load balancers, or the Service is missing or not ours.
    """
    service = snapshot.get(snapshot.local, Service, replica, submitted.namespace)
    if not submitted.load_balanced or service is None or OWNER not in service.metadata.labels:
        return ()
    ingress = service.status.load_balancer.ingress
    return tuple(i.ip or i.hostname for i in ingress if i.ip or i.hostname)[:16]


def _problems(
    submitted: SubmittedSet,
    owned: StatefulSet | None,
    desired: list[Desired],
    snapshot: Snapshot,
) -> Iterator[str]:
    """What hinders this cluster's part: a terminating namespace, or final failures of writes.

    Those at the broker are marked so. Also a released StatefulSet that is not adopted.
    """
    key = Key("local", submitted.name, submitted.namespace)
    if owned is None and (released := running_stateful_set(key, snapshot)) is not None:
        name = released.metadata.name
        yield (
            f"StatefulSet {name} of an orphaned set runs on, since the set is refused here: accept "
            f"it, or delete what runs with `kubectl -n {key.namespace} delete statefulset {name}`"
        )
    namespace = snapshot.get(snapshot.local, Namespace, submitted.namespace)
    if namespace is not None and namespace.terminating:
        yield f"namespace {submitted.namespace} is being deleted here"
    for each in desired:
        outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(each.where, object_ref(each.object)))
        if outcome is not None and outcome.is_final:
            yield (
                outcome.message
                if each.where == snapshot.local
                else f"on the broker: {outcome.message}"
            )
