"""Plans one federated Service in one member: Service, EndpointSlices, groups, DNSEndpoint."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import astuple, replace

from hanse.features.federated.backends import BACKEND_SLICES, backends_from, pod_backends
from hanse.features.federated.external_dns import (
    ExternalHostname,
    dns_endpoint,
    external_hostname,
    external_shares,
    external_targets,
    published_records,
    target_annotations,
)
from hanse.features.federated.groups import address_groups, emptied_groups
from hanse.features.federated.health import (
    failed_targets,
    judged_again_after,
    silent_clusters,
    with_draining,
)
from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.kept_slices import kept_slices
from hanse.features.federated.members import (
    all_records_complete,
    is_led,
    list_records,
)
from hanse.features.federated.merge import MergedService, Number, merge_members
from hanse.features.federated.names import CLUSTER, FEDERATED, JOIN, topic_member
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.ranges import (
    distinct_sources,
    member_ranges,
    misleading,
    without_own,
)
from hanse.features.federated.records import MemberRecord, Origin
from hanse.features.federated.selection import drain_members, drain_silent, unused_members
from hanse.features.federated.settings import (
    drains_silent_members,
    probes_members,
    publishing_clusters,
)
from hanse.features.federated.slices import (
    MemberEndpoints,
    as_applied,
    build_slices,
    slice_addresses,
)
from hanse.features.federated.status import (
    NAME_FREE_CONDITION,
    address_conditions,
    name_conditions,
    reachability_conditions,
    status_plan,
)
from hanse.model.acceptance import ImportedService, Refused, accepted, read_policy
from hanse.model.affinity import ZONE_DISTRIBUTIONS
from hanse.model.conditions import find_condition
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.core import Namespace, Service, ServiceSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, object_ref
from hanse.model.ownership import owner_claim
from hanse.model.plan import Desired, Key, Plan, Question
from hanse.model.snapshot import Snapshot


class _ServiceState(Struct, frozen=True):
    """One federated Service in one member, with everything its objects depend on."""

    federated: FederatedName
    member: ClusterId
    merged: MergedService
    records: tuple[MemberRecord, ...]
    """Of the members that are part of it, in the order of joining."""
    slices: tuple[EndpointSlice, ...]
    """Built from records."""
    kept: tuple[EndpointSlice, ...]
    """Current slices of clusters whose records are not known at the moment."""
    current: Service | None
    """The Service of that name in the member now, ours or not."""
    joined: bool = False
    """Whether it is a user's that agrees to get the endpoints of others."""
    silent: frozenset[ClusterId] = frozenset()
    """Other clusters that count as gone: their endpoints are draining."""
    ranges: tuple[str, ...] = ()
    """The address ranges of the member."""
    misled: dict[ClusterId, tuple[str, ...]] = {}
    """Addresses of other clusters in these ranges: they are left out."""
    failed: dict[ClusterId, dict[str, str]] = {}
    """Addresses that do not answer probes, by cluster, with the reason: they are draining."""
    judged_again_after: timedelta | None = None
    """When the next cluster may count as gone, or a record as not to be written."""
    questions: tuple[Question, ...] = ()
    """Whether records are gone that current slices were made from."""

    @property
    def all_slices(self) -> tuple[EndpointSlice, ...]:
        """The slices made from records, and those kept while their records are not known."""
        return (*self.slices, *self.kept)


def plan_service(key: Key, snapshot: Snapshot, options: FederatedOptions) -> Plan:
    """A federated Service in a led member, merged from all records, with its status conditions.

    Nothing is desired in members that we do not lead, where the namespace is missing or the
    AcceptancePolicy refuses it, or where the Service must be recreated. All is kept while the
    policy is not read; without records groups stand that policies name.
    """
    member = topic_member(key.topic)
    if not is_led(member, snapshot):
        return Plan()
    federated = FederatedName(key.namespace, key.name)
    current = snapshot.get(member, Service, federated.name, federated.namespace)
    policy = read_policy(member, snapshot)
    if policy is None:
        return Plan(keep_all=True)
    judged = accepted(policy, ImportedService(federated.namespace), member)
    if isinstance(judged, Refused) or not _has_namespace(federated, member, snapshot):
        return Plan()
    state = _service_state(federated, member, snapshot, current, options)
    if not state.merged.members:
        groups = emptied_groups(federated, member, snapshot)
        plan = Plan(
            tuple(Desired(g, member, 1, frozenset({member}), as_leader_of=member) for g in groups)
        )
        if not all_records_complete(snapshot):
            return plan
        return _with_status_conditions(plan, state, "", snapshot)
    if not state.joined and current is not None and _changes_headlessness(current, state.merged):
        return Plan()  # nothing desired: the Service is deleted, and created by the next plan
    desired = [
        Desired(obj, member, step, frozenset(sources), as_leader_of=member)
        for obj, step, sources in _desired_objects(state, snapshot, options)
    ]
    plan = Plan(tuple(desired), questions=state.questions, requeue_after=state.judged_again_after)
    return _with_status_conditions(plan, state, _name_conflict(state, snapshot), snapshot)


def _has_namespace(federated: FederatedName, member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether the member has the namespace of the Service and does not delete it."""
    namespace = snapshot.get(member, Namespace, federated.namespace)
    return namespace is not None and not namespace.terminating


def _service_state(
    federated: FederatedName,
    member: ClusterId,
    snapshot: Snapshot,
    current: Service | None,
    options: FederatedOptions,
) -> _ServiceState:
    """All that one member's federated Service is built from: merged records, slices, health.

    Current slices of clusters whose records are not known are kept and count as members. Endpoints
    of silent clusters or with failed probes, if the health setting says so, and of unused members
    are draining; those in the member's own ranges are left out.
    """
    known = {r.origin.identity: r for r in list_records(federated, snapshot)}
    kept = kept_slices(federated, member, known, snapshot)
    merged = merge_members([*(r.origin for r in known.values()), *dict(kept.slices)])
    joined = current is not None and _accepts_endpoints(current)
    names = _port_names(current) if current is not None and joined else merged.names
    records = tuple(known[o.identity].record for o in merged.members if o.identity in known)
    failed: dict[ClusterId, dict[str, str]] = {}
    for record in records if probes_members(merged.members) else ():
        failed.setdefault(record.cluster, {}).update(failed_targets(record, snapshot))
    others = {o.cluster for o in merged.members} - {member}
    judged = others if drains_silent_members(merged.members) else set()
    slices = [
        endpoint_slice
        for origin in merged.members
        if origin.identity in known
        and not (joined and origin.identity == (member, "Service", *astuple(federated)))
        for endpoint_slice in build_slices(
            federated,
            _member_endpoints(
                with_draining(known[origin.identity].record, failed.get(origin.cluster, ())),
                member,
                snapshot,
                origin,
            ),
            names,
            options.slice_size,
        )
        if endpoint_slice.ports or not names
    ]
    silent, ranges = silent_clusters(judged, snapshot), member_ranges(member, snapshot)
    misled = misleading(slices, member, ranges)
    slices = list(drain_silent(without_own(slices, member, ranges), silent))
    applied = [as_applied(s) for _, s in kept.slices]
    standing = list(drain_silent(without_own(applied, member, ranges), silent))
    own = _own_slices(current, member, snapshot) if joined else ()
    publishing = publishing_clusters(merged.members)
    silence = judged_again_after({*judged, *publishing} - {member}, snapshot)
    unused = unused_members(merged, federated, member, [*own, *slices, *standing])
    return _ServiceState(
        federated=federated,
        member=member,
        merged=merged,
        records=records,
        slices=tuple(drain_members(slices, unused)),
        kept=tuple(drain_members(standing, unused)),
        current=current,
        joined=joined,
        silent=silent,
        ranges=ranges,
        misled=misled,
        failed={cluster: found for cluster, found in failed.items() if found},
        judged_again_after=min(filter(None, (silence, kept.judged_again_after)), default=None),
        questions=kept.questions,
    )


def _own_slices(
    service: Service | None, member: ClusterId, snapshot: Snapshot
) -> Iterable[EndpointSlice]:
    """The slices of a user's Service in its own cluster, without those that we generate.

    None without a Service.
    """
    if service is None:
        return ()
    meta = service.metadata
    return snapshot.by(member, BACKEND_SLICES, f"{meta.namespace}/{meta.name}")


def _is_ours(service: Service) -> bool:
    """Whether a Service is a federated one, by the annotation `FEDERATED` or by its owner claim."""
    if FEDERATED in service.metadata.annotations:
        return True
    claim = owner_claim(service)
    return claim is not None and claim.feature == "federated"


def _accepts_endpoints(service: Service) -> bool:
    """Whether a Service is a user's own with annotation `JOIN`, which gets others' endpoints."""
    return not _is_ours(service) and service.metadata.annotations.get(JOIN) == "true"


def _port_names(service: Service) -> dict[Number, str]:
    """The names of a Service's ports, by protocol and number."""
    return {(port.protocol, port.port): port.name for port in service.spec.ports}


def _member_endpoints(
    record: MemberRecord, member: ClusterId, snapshot: Snapshot, origin: Origin
) -> MemberEndpoints:
    """The endpoints of a member Service as this cluster reaches them: a local Service by its pods.

    All others, also native services, and one that no longer exists by the addresses in the record,
    internal ones where the clusters share a network.
    """
    if record.cluster == member and record.kind == "Service":
        local = snapshot.get(member, Service, record.name, record.namespace)
        if local is not None:
            return MemberEndpoints(origin, pod_backends(local, member, snapshot))
    return MemberEndpoints(origin, tuple(backends_from(member, b) for b in record.backends))


def _changes_headlessness(current: Service, merged: MergedService) -> bool:
    """Whether our Service must change between headless and not, which no update can do."""
    return FEDERATED in current.metadata.annotations and current.headless == bool(merged.ports)


def _desired_objects(
    state: _ServiceState, snapshot: Snapshot, options: FederatedOptions
) -> Iterator[tuple[Object, int, set[ClusterId]]]:
    """(object, step, source clusters) of all that a federated Service has in one member.

    A Service, unless a user's joins in its place; its slices; a DNSEndpoint and groups where these
    kinds are served. Only the Service if a user's has the name and does not join, so that its write
    has an outcome.
    """
    federated, member = state.federated, state.member
    external = external_hostname(federated, state.records, state.current, options)
    if not _publishes(state, snapshot):
        external = ExternalHostname()
    answering = [
        with_draining(r, state.failed.get(r.cluster, ()))
        for r in state.records
        if r.cluster not in state.silent
    ]
    names = state.merged.names
    published = published_records(answering) or published_records(state.records)
    targets = external_targets(published, names)
    if not state.joined:
        shares = external_shares(published, targets)
        annotations = {**external.annotations, **target_annotations(external, targets, shares)}
        yield _federated_service(state, annotations), 0, {member}
    if not state.joined and state.current is not None and not _is_ours(state.current):
        return  # a user's Service gets no endpoints of others, nor keeps those that it had
    for endpoint_slice in state.all_slices:
        # what is known of a silent cluster may be incomplete, as after a restart: no reason to wait
        origin = {endpoint_slice.metadata.annotations[CLUSTER]} - state.silent
        yield endpoint_slice, 1, {member, *origin}
    if external.hostname and targets and snapshot.serves(member, DNSEndpoint):
        yield dns_endpoint(federated, external.hostname, targets), 1, {member}
    sources = distinct_sources(state.records, member, state.ranges)
    sources |= set(slice_addresses(state.kept))
    for group in address_groups(federated, sources, member, snapshot):
        yield group, 1, {member}


def _publishes(state: _ServiceState, snapshot: Snapshot) -> bool:
    """Whether this member publishes the external name: it is the first chosen one that answers.

    If none is chosen, every member does; if none answers, the first chosen one.
    """
    chosen = publishing_clusters(state.merged.members)
    silent = silent_clusters({*chosen} - {state.member}, snapshot)
    answering = [cluster for cluster in chosen if cluster not in silent] or chosen
    return not chosen or state.member == answering[0]


def _federated_service(state: _ServiceState, annotations: dict[str, str]) -> Service:
    """The federated Service with these annotations, without a selector; headless without ports."""
    ports = state.merged.ports
    return Service(
        metadata=Meta(
            name=state.federated.name,
            namespace=state.federated.namespace,
            annotations={FEDERATED: "true", **annotations},
        ),
        spec=ServiceSpec(
            ports=ports,
            cluster_ip="" if ports else "None",
            ip_family_policy="PreferDualStack",  # an extra family does no harm
            traffic_distribution="PreferClose" if _prefers_zones(state) else "",
        ),
    )


def _prefers_zones(state: _ServiceState) -> bool:
    """Whether clients prefer their zone: the oldest record with a trafficDistribution says so."""
    said = (r.traffic_distribution for r in state.records if r.traffic_distribution)
    return next(said, "") in ZONE_DISTRIBUTIONS


def _name_conflict(state: _ServiceState, snapshot: Snapshot) -> str:
    """The message for a foreign Service that has the name; empty where there is none.

    It is foreign if our last write had the outcome `Foreign`; without an outcome, its condition
    counts.
    """
    current = state.current
    if current is None or state.joined:
        return ""
    outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(state.member, object_ref(current)))
    reported = (
        find_condition(current.status.conditions, NAME_FREE_CONDITION) if outcome is None else None
    )
    is_still_foreign = (
        reported is not None
        and reported.status == "False"
        and FEDERATED not in current.metadata.annotations
    )
    if not is_still_foreign and (outcome is None or outcome.result != "Foreign"):
        return ""
    first = state.merged.members[0]
    return (
        f"this Service has the name of the federated Service {state.federated}, which {first} "
        "joins: it is left alone, and the federated one is not in this cluster until one of them "
        f"is renamed; annotation {JOIN}=true on it adds the endpoints of other clusters to it"
    )


def _with_status_conditions(
    plan: Plan, state: _ServiceState, conflict: str, snapshot: Snapshot
) -> Plan:
    """The plan with the status patch and Events of the current Service of that name, if any.

    They are of its conditions about the name, reachable members and allowed addresses.
    """
    if state.current is None:
        return plan
    conditions = [
        *name_conditions(state.current, conflict),
        *reachability_conditions(state.current, state.silent, state.failed, snapshot),
        *address_conditions(state.current, state.misled, state.ranges),
    ]
    status = status_plan(state.current, state.member, conditions, snapshot)
    return replace(plan, patches=status.patches, events=status.events)
