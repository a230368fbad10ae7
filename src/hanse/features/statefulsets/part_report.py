"""What this cluster reports of its part of a set."""

from collections.abc import Iterator

from hanse.features.statefulsets.load_balancers import list_pods
from hanse.features.statefulsets.names import REVISION, cluster_set_name, part_name
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.features.statefulsets.tombstones import add_created_uid
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.stateful import Replica, StatefulSetPart, StatefulSetPartSpec
from hanse.model.objects import ClusterObjectRef, Meta, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired
from hanse.model.snapshot import Snapshot

FAILED_RESULTS = ("Foreign", "Refused", "Forbidden")


def report(
    submitted: SubmittedSet,
    share: int,
    desired: list[Desired],
    snapshot: Snapshot,
    home: str,
    before: tuple[str, ...] = (),
) -> StatefulSetPart:
    """The part as it stands, with what is in its way; `before` is what it had made till now.

    A new share is told once the set has it, with what comes of it, and not in the set's own way.
    """
    own = snapshot.get(
        snapshot.local,
        StatefulSet,
        cluster_set_name(submitted.name, snapshot.local),
        submitted.namespace,
    )
    ours = own if own is not None and OWNER in own.metadata.labels else None
    applied = ours.metadata.annotations.get(REVISION, "") if ours is not None else ""
    told = ours is not None and ours.status.observed_generation >= ours.metadata.generation
    status = ours.status if ours is not None and told else None
    spec = StatefulSetPartSpec(
        namespace=submitted.namespace,
        name=submitted.name,
        cluster=snapshot.local,
        share=ours.spec.replicas if ours is not None else share,
        applied=applied,
        revision=applied if ours is not None and _is_complete(ours) else "",
        current_replicas=status.current_replicas if status else 0,
        updated_replicas=status.updated_replicas if status else 0,
        available_replicas=status.available_replicas if status else 0,
        replicas=tuple(_replicas(submitted, snapshot)) if ours is not None else (),
        trouble="; ".join(_troubles(submitted, desired, snapshot))[:32000],
        made=add_created_uid(ours, before),
    )
    name = part_name(submitted.namespace, submitted.name, snapshot.local)
    return StatefulSetPart(metadata=Meta(name=name, namespace=home), spec=spec)


def _is_complete(own: StatefulSet) -> bool:
    """Whether every replica exists, is ready and runs the template as it stands."""
    status = own.status
    return (
        status.observed_generation >= own.metadata.generation
        and status.current_revision == status.update_revision
        and status.replicas == status.ready_replicas == status.updated_replicas == own.spec.replicas
    )


def _replicas(submitted: SubmittedSet, snapshot: Snapshot) -> Iterator[Replica]:
    for pod in list_pods(submitted, snapshot):
        name = pod.metadata.name
        yield Replica(name=name, ready=pod.ready, addresses=_addresses(name, submitted, snapshot))


def _addresses(replica: str, submitted: SubmittedSet, snapshot: Snapshot) -> tuple[str, ...]:
    service = snapshot.get(snapshot.local, Service, replica, submitted.namespace)
    if not submitted.balanced or service is None or OWNER not in service.metadata.labels:
        return ()
    given = service.status.load_balancer.ingress
    return tuple(i.ip or i.hostname for i in given if i.ip or i.hostname)[:16]


def _troubles(submitted: SubmittedSet, desired: list[Desired], snapshot: Snapshot) -> Iterator[str]:
    space = snapshot.get(snapshot.local, Namespace, submitted.namespace)
    if space is not None and space.terminating:
        yield f"namespace {submitted.namespace} is being deleted here"
    for one in desired:
        outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(one.where, object_ref(one.object)))
        if outcome is not None and outcome.result in FAILED_RESULTS:
            yield (
                outcome.message
                if one.where == snapshot.local
                else f"at the door: {outcome.message}"
            )
