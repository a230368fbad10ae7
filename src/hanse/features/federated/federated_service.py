"""One federated Service in one member: the Service, its slices, and what goes with it."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.federated.backends import pod_backends
from hanse.features.federated.external_dns import (
    dns_endpoint,
    external_hostname,
    external_targets,
    target_annotations,
)
from hanse.features.federated.groups import address_groups
from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.members import (
    all_records_complete,
    has_complete_records,
    has_left,
    is_led,
    list_records,
    serves,
    unreadable_members,
)
from hanse.features.federated.merge import MergedService, merge
from hanse.features.federated.names import CLUSTER, FEDERATED, topic_member
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.records import MemberRecord, Origin
from hanse.features.federated.slices import (
    GENERATED_SLICES,
    MemberEndpoints,
    as_applied,
    build_slices,
    slice_addresses,
    slice_origin,
)
from hanse.features.federated.status import NAME_FREE_CONDITION, name_conditions, told
from hanse.model.conditions import find
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.antrea import ClusterGroup, Group
from hanse.model.kinds.core import Namespace, Service, ServiceSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Snapshot


class _Here(Struct, frozen=True):
    """One federated Service as it will be in one member."""

    federated: FederatedName
    member: ClusterId
    merged: MergedService
    records: tuple[MemberRecord, ...]
    """Of members that are part of it, the first to join first."""
    slices: tuple[EndpointSlice, ...]
    kept: tuple[EndpointSlice, ...]
    """Slices of clusters out of sight, which stand as they are."""
    standing: Service | None

    @property
    def everything(self) -> tuple[EndpointSlice, ...]:
        return (*self.slices, *self.kept)


def plan_service(key: Key, snapshot: Snapshot, options: FederatedOptions) -> Plan:
    """A federated Service in a member that we lead, as all records say."""
    member = topic_member(key.topic)
    if not is_led(member, snapshot):
        return Plan()
    federated = FederatedName(key.namespace, key.name)
    standing = snapshot.get(member, Service, federated.name, federated.namespace)
    if not _has_place(federated, member, snapshot):
        return Plan()
    here = _gathered(federated, member, snapshot, standing, options)
    if not here.merged.members:
        return (
            _told_of_name(here, snapshot, "", Plan()) if all_records_complete(snapshot) else Plan()
        )
    if standing is not None and _must_be_made_anew(standing, here.merged):
        return Plan()
    desired = [
        Desired(obj, member, step, frozenset(sources), as_leader_of=member)
        for obj, step, sources in _objects(here, snapshot, options)
    ]
    return _told_of_name(here, snapshot, _in_the_way(here, snapshot), Plan(tuple(desired)))


def _has_place(federated: FederatedName, member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether the namespace is there; where it is not, the Service is left out."""
    space = snapshot.get(member, Namespace, federated.namespace)
    return space is not None and not space.terminating


def _gathered(
    federated: FederatedName,
    member: ClusterId,
    snapshot: Snapshot,
    standing: Service | None,
    options: FederatedOptions,
) -> _Here:
    known = {j.origin.identity: j for j in list_records(federated, snapshot)}
    kept = [
        (origin, endpoint_slice)
        for endpoint_slice in snapshot.by(member, GENERATED_SLICES, str(federated))
        if (origin := slice_origin(endpoint_slice)) is not None
        and origin.identity not in known
        and _is_out_of_sight(origin.cluster, federated, snapshot)
    ]
    merged = merge([*(j.origin for j in known.values()), *dict(kept)])
    records = tuple(known[o.identity].record for o in merged.members if o.identity in known)
    names = merged.names
    slices = [
        endpoint_slice
        for origin in merged.members
        if origin.identity in known
        for endpoint_slice in build_slices(
            federated,
            _part(known[origin.identity].record, member, snapshot, origin),
            names,
            options.slice_size,
        )
    ]
    return _Here(
        federated=federated,
        member=member,
        merged=merged,
        records=records,
        slices=tuple(slices),
        kept=tuple(as_applied(endpoint_slice) for _, endpoint_slice in kept),
        standing=standing,
    )


def _is_out_of_sight(cluster: ClusterId, federated: FederatedName, snapshot: Snapshot) -> bool:
    """Whether what came from a cluster stands, since nobody can say that it ended."""
    if has_left(cluster, snapshot):
        return False
    return not has_complete_records(cluster, snapshot) or cluster in unreadable_members(
        federated, snapshot
    )


def _part(
    record: MemberRecord, member: ClusterId, snapshot: Snapshot, joined_as: Origin
) -> MemberEndpoints:
    """A member Service's endpoints as this cluster reaches them: its own, by their pods."""
    if record.cluster == member and record.kind == "Service":
        local = snapshot.get(member, Service, record.name, record.namespace)
        if local is not None:
            return MemberEndpoints(joined_as, pod_backends(local, member, snapshot))
    return MemberEndpoints(joined_as, record.backends)


def _must_be_made_anew(standing: Service, merged: MergedService) -> bool:
    """Whether the Service has an address and must have none, or the other way round."""
    return FEDERATED in standing.metadata.annotations and standing.headless == bool(merged.ports)


def _objects(
    here: _Here, snapshot: Snapshot, options: FederatedOptions
) -> Iterator[tuple[Object, int, set[ClusterId]]]:
    """Each object with its step and whose observation it rests on."""
    federated, member = here.federated, here.member
    outside = external_hostname(federated, here.records, here.standing, options)
    targets = external_targets(here.records)
    yield _service(here, {**outside.marks, **target_annotations(outside, targets)}), 0, {member}
    for endpoint_slice in here.everything:
        yield endpoint_slice, 1, {member, endpoint_slice.metadata.annotations[CLUSTER]}
    if outside.hostname and targets and serves(member, DNSEndpoint, snapshot):
        yield dns_endpoint(federated, outside.hostname, targets), 1, {member}
    kinds = [kind for kind in (ClusterGroup, Group) if serves(member, kind, snapshot)]
    for group in address_groups(federated, slice_addresses(here.everything), kinds):
        yield group, 1, {member}


def _service(here: _Here, marks: dict[str, str]) -> Service:
    ports = here.merged.ports
    return Service(
        metadata=Meta(
            name=here.federated.name,
            namespace=here.federated.namespace,
            annotations={FEDERATED: "true", **marks},
        ),
        spec=ServiceSpec(
            ports=ports,
            cluster_ip="" if ports else "None",
            ip_family_policy="PreferDualStack",  # all that the cluster has; a family too many rests
        ),
    )


def _in_the_way(here: _Here, snapshot: Snapshot) -> str:
    """What a Service of the same name that is not ours keeps from being."""
    standing = here.standing
    if standing is None:
        return ""
    outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(here.member, object_ref(standing)))
    told = find(standing.status.conditions, NAME_FREE_CONDITION) if outcome is None else None
    still = (
        told is not None
        and told.status == "False"
        and FEDERATED not in standing.metadata.annotations
    )
    if not still and (outcome is None or outcome.result != "Foreign"):
        return ""
    first = here.merged.members[0]
    return (
        f"this Service has the name of the federated Service {here.federated}, which {first} "
        "joins: it is left alone, and the federated one is not in this cluster until one of them "
        "is renamed"
    )


def _told_of_name(here: _Here, snapshot: Snapshot, fault: str, plan: Plan) -> Plan:
    if here.standing is None:
        return plan
    telling = told(here.standing, here.member, name_conditions(here.standing, fault), snapshot)
    return replace(plan, patches=telling.patches, events=telling.events)
