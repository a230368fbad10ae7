"""One federated Service in one member: the Service, its slices, and what goes with it."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.federated.backends import pods_of
from hanse.features.federated.external_dns import (
    dns_endpoint,
    outside_name,
    target_marks,
    targets_of,
)
from hanse.features.federated.groups import groups_of
from hanse.features.federated.join_requests import Federated
from hanse.features.federated.members import (
    all_whole,
    beyond_us,
    has_left,
    is_led,
    is_whole,
    joined,
    serves,
)
from hanse.features.federated.merge import Merged, merge
from hanse.features.federated.names import CLUSTER, FEDERATED, member_in
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.records import Origin, Record
from hanse.features.federated.slices import (
    GENERATED,
    Part,
    addresses_in,
    as_it_stands,
    origin_of,
    slices_of,
)
from hanse.features.federated.status import NAME, name_taken, told
from hanse.model.conditions import find
from hanse.model.facts import WriteOutcome
from hanse.model.keys import Key
from hanse.model.kinds.antrea import ClusterGroup, Group
from hanse.model.kinds.core import Namespace, Service, ServiceSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, ref_of
from hanse.model.plan import Desired, Plan
from hanse.model.snapshot import Snapshot


class _Here(Struct, frozen=True):
    """One federated Service as it will be in one member."""

    of: Federated
    member: ClusterId
    merged: Merged
    records: tuple[Record, ...]
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
    member = member_in(key.topic)
    if not is_led(member, snapshot):
        return Plan()
    of = Federated(key.namespace, key.name)
    standing = snapshot.get(member, Service, of.name, of.namespace)
    if not _has_place(of, member, snapshot):
        return Plan()
    here = _gathered(of, member, snapshot, standing, options)
    if not here.merged.members:
        return _told_of_name(here, snapshot, "", Plan()) if all_whole(snapshot) else Plan()
    if standing is not None and _must_be_made_anew(standing, here.merged):
        return Plan()
    desired = [
        Desired(obj, member, step, frozenset(sources), as_leader_of=member)
        for obj, step, sources in _objects(here, snapshot, options)
    ]
    return _told_of_name(here, snapshot, _in_the_way(here, snapshot), Plan(tuple(desired)))


def _has_place(of: Federated, member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether the namespace is there; where it is not, the Service is left out."""
    space = snapshot.get(member, Namespace, of.namespace)
    return space is not None and not space.terminating


def _gathered(
    of: Federated,
    member: ClusterId,
    snapshot: Snapshot,
    standing: Service | None,
    options: FederatedOptions,
) -> _Here:
    known = {j.origin.whose: j for j in joined(of, snapshot)}
    kept = [
        (origin, piece)
        for piece in snapshot.by(member, GENERATED, str(of))
        if (origin := origin_of(piece)) is not None
        and origin.whose not in known
        and _is_out_of_sight(origin.cluster, of, snapshot)
    ]
    merged = merge([*(j.origin for j in known.values()), *dict(kept)])
    records = tuple(known[o.whose].record for o in merged.members if o.whose in known)
    names = merged.names
    slices = [
        piece
        for origin in merged.members
        if origin.whose in known
        for piece in slices_of(
            of,
            _part(known[origin.whose].record, member, snapshot, origin),
            names,
            options.slice_size,
        )
    ]
    return _Here(
        of=of,
        member=member,
        merged=merged,
        records=records,
        slices=tuple(slices),
        kept=tuple(as_it_stands(piece) for _, piece in kept),
        standing=standing,
    )


def _is_out_of_sight(cluster: ClusterId, of: Federated, snapshot: Snapshot) -> bool:
    """Whether what came from a cluster stands, since nobody can say that it ended."""
    if has_left(cluster, snapshot):
        return False
    return not is_whole(cluster, snapshot) or cluster in beyond_us(of, snapshot)


def _part(record: Record, member: ClusterId, snapshot: Snapshot, joined_as: Origin) -> Part:
    """A member Service's endpoints as this cluster reaches them: its own, by their pods."""
    if record.cluster == member and record.kind == "Service":
        local = snapshot.get(member, Service, record.name, record.namespace)
        if local is not None:
            return Part(joined_as, pods_of(local, member, snapshot))
    return Part(joined_as, record.backends)


def _must_be_made_anew(standing: Service, merged: Merged) -> bool:
    """Whether the Service has an address and must have none, or the other way round."""
    return FEDERATED in standing.metadata.annotations and standing.headless == bool(merged.ports)


def _objects(
    here: _Here, snapshot: Snapshot, options: FederatedOptions
) -> Iterator[tuple[Object, int, set[ClusterId]]]:
    """Each object with its step and whose observation it rests on."""
    of, member = here.of, here.member
    outside = outside_name(of, here.records, here.standing, options)
    targets = targets_of(here.records)
    yield _service(here, {**outside.marks, **target_marks(outside, targets)}), 0, {member}
    for piece in here.everything:
        yield piece, 1, {member, piece.metadata.annotations[CLUSTER]}
    if outside.hostname and targets and serves(member, DNSEndpoint, snapshot):
        yield dns_endpoint(of, outside.hostname, targets), 1, {member}
    kinds = [kind for kind in (ClusterGroup, Group) if serves(member, kind, snapshot)]
    for group in groups_of(of, addresses_in(here.everything), kinds):
        yield group, 1, {member}


def _service(here: _Here, marks: dict[str, str]) -> Service:
    ports = here.merged.ports
    return Service(
        metadata=Meta(
            name=here.of.name,
            namespace=here.of.namespace,
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
    outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(here.member, ref_of(standing)))
    told = find(standing.status.conditions, NAME) if outcome is None else None
    still = (
        told is not None
        and told.status == "False"
        and FEDERATED not in standing.metadata.annotations
    )
    if not still and (outcome is None or outcome.result != "Foreign"):
        return ""
    first = here.merged.members[0]
    return (
        f"this Service has the name of the federated Service {here.of}, which {first} joins: it is "
        "left alone, and the federated one is not in this cluster until one of them is renamed"
    )


def _told_of_name(here: _Here, snapshot: Snapshot, fault: str, plan: Plan) -> Plan:
    if here.standing is None:
        return plan
    telling = told(here.standing, here.member, name_taken(here.standing, fault), snapshot)
    return replace(plan, patches=telling.patches, events=telling.events)
