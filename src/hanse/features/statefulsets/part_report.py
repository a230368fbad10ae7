"""The report of this cluster about its part of a set: a StatefulSetPart at the broker."""

from collections.abc import Iterator
from typing import Any

from hanse.features.statefulsets.acceptance import Terms
from hanse.features.statefulsets.load_balancers import list_pods
from hanse.features.statefulsets.names import REVISION, part_name
from hanse.features.statefulsets.owned_objects import owned_stateful_set
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.features.statefulsets.tombstones import add_created_uid
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.stateful import (
    LIMITED_SCHEMA,
    Refusal,
    Replica,
    StatefulSetPart,
    StatefulSetPartSpec,
)
from hanse.model.objects import ClusterObjectRef, Meta, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired
from hanse.model.snapshot import Snapshot

FAILED_RESULTS = ("Foreign", "Refused", "Forbidden")


def build_report(
    submitted: SubmittedSet,
    share: int,
    desired: list[Desired],
    snapshot: Snapshot,
    broker_namespace: str,
    terms: Terms,
    created_before: tuple[str, ...] = (),
) -> StatefulSetPart:
    """The present state of this cluster's part, its problems, and the uids of its StatefulSets.

    The share is the one that this cluster runs or is about to: others compute theirs from it, so
    that nobody's edit of the StatefulSet changes it.
    """
    owned = owned_stateful_set(submitted.name, submitted.namespace, snapshot)
    applied = owned.metadata.annotations.get(REVISION, "") if owned is not None else ""
    is_current = owned is not None and owned.status.observed_generation >= owned.metadata.generation
    status = owned.status if owned is not None and is_current else None
    spec = StatefulSetPartSpec(
        namespace=submitted.namespace,
        name=submitted.name,
        cluster=snapshot.local,
        share=share,
        rebalanced=submitted.rebalance[:253],
        applied=applied,
        revision=applied if owned is not None and _is_rolled_out(owned, share) else "",
        current_replicas=status.current_replicas if status else 0,
        updated_replicas=status.updated_replicas if status else 0,
        available_replicas=status.available_replicas if status else 0,
        replicas=tuple(_list_replicas(submitted, snapshot)) if owned is not None else (),
        trouble="; ".join(_problems(submitted, desired, snapshot))[:32000],
        made=add_created_uid(owned, created_before),
        **_reported_terms(terms, submitted, owned),
    )
    name = part_name(submitted.namespace, submitted.name, snapshot.local)
    return StatefulSetPart(metadata=Meta(name=name, namespace=broker_namespace), spec=spec)


def _reported_terms(
    terms: Terms, submitted: SubmittedSet, owned: StatefulSet | None
) -> dict[str, Any]:
    """The fields that tell others how much is taken here; none if it is as much as they like."""
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


def _is_rolled_out(stateful_set: StatefulSet, share: int) -> bool:
    """Whether every replica of a share exists, is ready and runs the present template."""
    status = stateful_set.status
    return (
        status.observed_generation >= stateful_set.metadata.generation
        and status.current_revision == status.update_revision
        and status.replicas
        == status.ready_replicas
        == status.updated_replicas
        == stateful_set.spec.replicas
        == share
    )


def _list_replicas(submitted: SubmittedSet, snapshot: Snapshot) -> Iterator[Replica]:
    """The replicas of a set here, by ordinal, with readiness and load balancer addresses."""
    for pod in list_pods(submitted, snapshot):
        name = pod.metadata.name
        yield Replica(name=name, ready=pod.ready, addresses=_addresses(name, submitted, snapshot))


def _addresses(replica: str, submitted: SubmittedSet, snapshot: Snapshot) -> tuple[str, ...]:
    """Up to 16 addresses of a replica's load balancer; none if it is not needed or not ours."""
    service = snapshot.get(snapshot.local, Service, replica, submitted.namespace)
    if not submitted.load_balanced or service is None or OWNER not in service.metadata.labels:
        return ()
    ingress = service.status.load_balancer.ingress
    return tuple(i.ip or i.hostname for i in ingress if i.ip or i.hostname)[:16]


def _problems(submitted: SubmittedSet, desired: list[Desired], snapshot: Snapshot) -> Iterator[str]:
    """What hinders this cluster's part: a terminating namespace, or failed writes."""
    namespace = snapshot.get(snapshot.local, Namespace, submitted.namespace)
    if namespace is not None and namespace.terminating:
        yield f"namespace {submitted.namespace} is being deleted here"
    for each in desired:
        outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(each.where, object_ref(each.object)))
        if outcome is not None and outcome.result in FAILED_RESULTS:
            yield (
                outcome.message
                if each.where == snapshot.local
                else f"at the door: {outcome.message}"
            )
