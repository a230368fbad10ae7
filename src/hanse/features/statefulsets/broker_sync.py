"""The other door: a FederatedStatefulSet in a host cluster, passed on to the broker and back.

The host's agent keeps the set and its headless Service on the broker as they are at home, so that
everything else is as if they had been submitted there; status and shares come back the same way.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from hanse.features.statefulsets.fleet import PARTS_BY_SET, members
from hanse.features.statefulsets.headless_services import (
    governing_service,
    list_governed_federated_sets,
)
from hanse.features.statefulsets.local import copied
from hanse.features.statefulsets.names import CLUSTER, LAST_APPLIED, ORPHANED, REPLICAS, SET, users
from hanse.features.statefulsets.owned_objects import SERVICES_BY_SET
from hanse.features.statefulsets.part_report import FAILED_RESULTS
from hanse.features.statefulsets.status import news
from hanse.model.clusterset import broker_cluster
from hanse.model.conditions import Condition, condition, merged
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import (
    ClusterId,
    ClusterObjectRef,
    Meta,
    ObjectRef,
    OwnerReference,
    Wire,
    object_ref,
)
from hanse.model.ownership import OWNER, OWNER_KEY
from hanse.model.plan import Desired, Key, Patch, Plan
from hanse.model.snapshot import Snapshot

_Conditions = tuple[Condition, ...]


def plan_broker_sync(key: Key, snapshot: Snapshot, home: str) -> Plan:
    """A host's set on the broker, and what is told of it at home."""
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    plan = _plan(key, snapshot, broker, home)
    return replace(plan, kept=(*plan.kept, *_of_others(key, snapshot, broker)))


def _of_others(key: Key, snapshot: Snapshot, broker: ClusterId) -> Iterator[ClusterObjectRef]:
    """The headless Services of our other sets: they stay whoever passed them on."""
    for hosted in snapshot.in_namespace(snapshot.local, FederatedStatefulSet, key.namespace):
        name = governing_service(hosted)
        stays = hosted.metadata.deletion_timestamp is None
        if name and stays and hosted.metadata.name != key.name:
            yield ClusterObjectRef(broker, ObjectRef(Service.kind, name, key.namespace))


def _plan(key: Key, snapshot: Snapshot, broker: ClusterId, home: str) -> Plan:
    here = snapshot.get(snapshot.local, FederatedStatefulSet, key.name, key.namespace)
    there = snapshot.get(broker, FederatedStatefulSet, key.name, key.namespace)
    anchor = snapshot.get(snapshot.local, StatefulSetShares, key.name, key.namespace)
    if here is not None and there is not None and here.metadata.uid == there.metadata.uid:
        return Plan()  # the broker is this very cluster
    if here is None or here.metadata.deletion_timestamp is not None:
        return _after_deletion(there, anchor, snapshot, broker, home)
    desired = [*_passed_on(here, snapshot, broker)]
    if not (trouble := _trouble(here, snapshot, broker)):
        desired += _shown(key, here, snapshot, broker)
    told = _told(here, there, snapshot, trouble)
    after = msgspec.convert(told.change.get("status", {}).get("conditions", ()), _Conditions)
    events = tuple(news(told.place, here.status.conditions, after))
    shown: tuple[ClusterObjectRef, ...] = ()
    if anchor is not None and not trouble:
        shown = (
            ClusterObjectRef(snapshot.local, object_ref(anchor)),
        )  # the last shares that we could read
    return Plan(tuple(desired), patches=(told,), events=events, kept=shown)


def _after_deletion(
    there: FederatedStatefulSet | None,
    anchor: StatefulSetShares | None,
    snapshot: Snapshot,
    broker: ClusterId,
    home: str,
) -> Plan:
    """Wait for what the garbage collector makes of the shares; an orphan's set is let go of."""
    ours = there is not None and OWNER in there.metadata.labels
    if anchor is None or there is None or not ours:
        return Plan()
    shown = ClusterObjectRef(snapshot.local, object_ref(anchor))
    if anchor.metadata.owner_references:
        return Plan(kept=(ClusterObjectRef(broker, object_ref(there)), shown))
    marks = {**there.metadata.annotations, ORPHANED: "true"}
    there = replace(there, metadata=replace(there.metadata, annotations=marks))
    if not _held_somewhere(there, snapshot, broker, home):
        return Plan()  # every cluster has let go
    return Plan((Desired(there, broker, sources=frozenset({snapshot.local})),), kept=(shown,))


def _held_somewhere(
    there: FederatedStatefulSet, snapshot: Snapshot, broker: ClusterId, home: str
) -> bool:
    """Whether a cluster of the fleet has not let go of its part yet."""
    parts = snapshot.by(broker, PARTS_BY_SET, f"{there.metadata.namespace}/{there.metadata.name}")
    joined = {member.cluster for member in members(snapshot, broker, home)}
    return any(part.spec.cluster in joined and part.spec.ended is None for part in parts)


def _passed_on(
    here: FederatedStatefulSet, snapshot: Snapshot, broker: ClusterId
) -> Iterator[Desired]:
    meta = here.metadata
    sources = frozenset({snapshot.local})
    if snapshot.get(broker, Namespace, meta.namespace) is None:
        space = Namespace(metadata=Meta(name=meta.namespace))
        yield Desired(space, broker, sources=sources, unowned=True)
    name = governing_service(here)
    service = snapshot.get(snapshot.local, Service, name, meta.namespace)
    ours = service is not None and OWNER not in service.metadata.labels
    if service is not None and ours and meta.name == _keeper(name, meta.namespace, snapshot):
        copy = Service(
            metadata=Meta(
                name=name,
                namespace=meta.namespace,
                labels=users(service.metadata.labels),
                annotations=users(service.metadata.annotations),
            ),
            spec=copied(service.spec),
        )
        standing = snapshot.get(broker, Service, name, meta.namespace)
        again = standing is not None and _passed_on_by(snapshot.local, standing)
        yield Desired(copy, broker, step=1, sources=sources, takes_over=again)
    marks = {n: v for n, v in meta.annotations.items() if n not in (LAST_APPLIED, REPLICAS)}
    passed = FederatedStatefulSet(
        metadata=Meta(
            name=meta.name, namespace=meta.namespace, labels=users(meta.labels), annotations=marks
        ),
        spec=here.spec,
    )
    yield Desired(passed, broker, step=2, sources=sources)


def _keeper(service: str, namespace: str, snapshot: Snapshot) -> str:
    """Which of our sets behind a Service passes it on: the first by name."""
    return min(
        list_governed_federated_sets(service, namespace, snapshot, snapshot.local), default=""
    )


def _passed_on_by(host: ClusterId, service: Service) -> bool:
    """Whether a Service is on the broker for the sake of this host's sets."""
    claim = service.metadata.annotations.get(OWNER_KEY, "")
    ours = OWNER in service.metadata.labels
    return ours and f'"for":"{host}"' in claim and '"key":"mirror/' in claim


def _shown(
    key: Key, here: FederatedStatefulSet, snapshot: Snapshot, broker: ClusterId
) -> Iterator[Desired]:
    """At home: the shares, which go with the set, and the Services of replicas elsewhere."""
    sources = frozenset({broker})
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    if record is not None and not record.spec.newer:
        kind = FederatedStatefulSet.kind
        owner = OwnerReference(
            api_version=kind.api_version,
            kind=kind.name,
            name=key.name,
            uid=here.metadata.uid,
        )
        meta = Meta(name=key.name, namespace=key.namespace, owner_references=(owner,))
        yield Desired(
            StatefulSetShares(metadata=meta, spec=record.spec), snapshot.local, 0, sources
        )
    for service in snapshot.by(broker, SERVICES_BY_SET, f"{key.namespace}/{key.name}"):
        marks = service.metadata.annotations
        if CLUSTER in marks and marks[CLUSTER] != snapshot.local:
            labels = {n: v for n, v in users(service.metadata.labels).items() if n != SET}
            meta = Meta(
                name=service.metadata.name,
                namespace=key.namespace,
                labels=labels,
                annotations={CLUSTER: marks[CLUSTER]},
            )
            spec = copied(service.spec)
            copy = Service(metadata=meta, spec=spec, status=service.status)
            yield Desired(copy, snapshot.local, sources=sources)


def _trouble(here: FederatedStatefulSet, snapshot: Snapshot, broker: ClusterId) -> str:
    """Why the broker does not take the set; empty if nothing is known."""
    outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(broker, object_ref(here)))
    return outcome.message if outcome is not None and outcome.result in FAILED_RESULTS else ""


def _told(
    here: FederatedStatefulSet, there: FederatedStatefulSet | None, snapshot: Snapshot, trouble: str
) -> Patch:
    """The status at home: what the broker's copy says, as far as that is about this set."""
    place = ClusterObjectRef(snapshot.local, object_ref(here))
    generation = here.metadata.generation
    if trouble:
        return Patch(place, _refused(here, trouble, snapshot), "status")
    if there is None or OWNER not in there.metadata.labels or there.spec != here.spec:
        return Patch(place, {})  # what stands is told until there is something newer
    status = there.status
    if status.observed_generation != there.metadata.generation:
        return Patch(place, {})
    conditions = [replace(c, observed_generation=generation) for c in status.conditions]
    told: Wire = msgspec.to_builtins(
        replace(status, observed_generation=generation, conditions=tuple(conditions))
    )
    counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    zeros: Wire = {**dict.fromkeys(counts, 0), "clusters": []}
    return Patch(place, {"status": {**zeros, **told}}, "status")


def _refused(here: FederatedStatefulSet, message: str, snapshot: Snapshot) -> Wire:
    wanted: tuple[Condition, ...] = (
        condition("Valid", False, "NotPassedOn", f"the broker does not take it: {message}"[:1000]),
    )
    generation = here.metadata.generation
    after = merged(here.status.conditions, wanted, snapshot.now, generation)
    return {"status": {"conditions": msgspec.to_builtins(after)}}
