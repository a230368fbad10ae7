"""The backends of a multi-cluster service by cluster, and why a cluster is excluded."""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.legacy import LIGHTHOUSE_AGENT
from hanse.features.services.names import (
    AGENT,
    DOMAIN,
    PRIORITY,
    SERVICE_NAME,
    SOURCE_CLUSTER,
    WEIGHT,
)
from hanse.model.clusterset import broker_cluster, clusterset_spec, unanswered_clusters
from hanse.model.dns.records import address_rdata
from hanse.model.dns.service_records import dashed_address
from hanse.model.dns.zones import View
from hanse.model.facts import ClusterState, Role
from hanse.model.kinds.discovery import MANAGED_BY, EndpointPort, EndpointSlice
from hanse.model.kinds.hanse import ClusterMember, ClusterSet, Profile
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Index, Snapshot
from hanse.model.weights import Weighting

LEASE_EXPIRED = "its Lease on the broker has run out"
NO_BACKENDS = "it has no endpoints"
NOT_READY = "none of its endpoints is ready"
NO_SLICES = "it exports the service, and none of its slices has arrived"
NO_WEIGHT = "its weight is 0, and others are ready"
LOWER_PRIORITY = "a cluster of higher priority is ready"
LOCAL_PREFERRED = "the local cluster is ready and comes first"
REMOTE_PREFERRED = "other clusters are ready and come first"


def _service_key(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index key: `namespace/name` of the service of an imported slice.

    Copies that a Lighthouse agent left here are not among them: nobody updates them.
    """
    labels = endpoint_slice.metadata.labels
    name = labels.get(SERVICE_NAME)
    if name and SOURCE_CLUSTER in labels and labels.get(MANAGED_BY) != LIGHTHOUSE_AGENT:
        yield f"{endpoint_slice.metadata.namespace}/{name}"


def _source_cluster(endpoint_slice: EndpointSlice) -> Iterator[str]:
    """Index key: the source cluster of an imported slice; none for other slices."""
    if (
        SERVICE_NAME in endpoint_slice.metadata.labels
        and SOURCE_CLUSTER in endpoint_slice.metadata.labels
    ):
        yield endpoint_slice.metadata.labels[SOURCE_CLUSTER]


BY_SERVICE = Index(EndpointSlice, "dns-service", _service_key)
BY_CLUSTER = Index(EndpointSlice, "dns-cluster", _source_cluster)


_DEFAULT_WEIGHT = Weighting()


class ClusterSetRules(Struct, frozen=True):
    """The rules of a ClusterSet for answers."""

    profile: Profile
    weights: Mapping[ClusterId, Weighting]
    expired: frozenset[ClusterId]
    """Clusters whose Lease on the broker has expired."""
    known: bool = True
    """Whether the profile is known, and not the default of a reader that has not read it yet."""

    def for_import(self, service_import: ServiceImport) -> "ClusterSetRules":
        """The rules for one import; while the profile is unknown, `kep-1645` if it has spec.ips."""
        if self.known or not service_import.spec.ips:
            return self
        return replace(self, profile="kep-1645")


class EndpointAddress(Struct, frozen=True, gc=False):
    """One ready address, with the label of its pod: the host name, or else the dashed address."""

    label: str
    rdata: bytes
    ports: tuple[EndpointPort, ...]


class ClusterBackends(Struct, frozen=True, gc=False):
    """The ready endpoints of a service in one cluster."""

    cluster: ClusterId
    weighting: Weighting
    ports: tuple[EndpointPort, ...]
    addresses: tuple[EndpointAddress, ...]
    """The ready addresses; none if the cluster is excluded."""
    excluded: str = ""
    """Why the cluster is not in any answer; empty if it is."""


def clusterset_rules(view: View, snapshot: Snapshot) -> ClusterSetRules:
    """Profile, weights and expired clusters as the ClusterSet has them, or the defaults.

    The view's profile takes precedence. Clusters that have left count as expired, too; the local
    cluster never does.
    """
    broker = broker_cluster(snapshot)
    spec = clusterset_spec(snapshot, broker)
    known = view.profile is not None or _has_read_rules(broker, snapshot)
    weights = {member.id: Weighting(member.weight, member.priority) for member in spec.clusters}
    expired = unanswered_clusters(snapshot)
    return ClusterSetRules(view.profile or spec.profile, weights, expired, known)


def _has_read_rules(broker: ClusterId | None, snapshot: Snapshot) -> bool:
    """Whether the ClusterSet, and records of members where they are watched, are listed.

    A kind that is not served counts as listed; False if neither is watched. True without a broker:
    the rules are the defaults. False while a broker is being left, whose imports stand until they
    are withdrawn.
    """
    if broker is None:
        return not any(Role.BROKER in state.roles for state in snapshot.facts(ClusterState))
    kinds = [k for k in (ClusterSet, ClusterMember) if snapshot.watches(broker, k)]
    return bool(kinds) and all(snapshot.listed_or_unserved(broker, k) for k in kinds)


def cluster_backends(
    key: Key, service_import: ServiceImport, rules: ClusterSetRules, snapshot: Snapshot
) -> tuple[ClusterBackends, ...]:
    """The backends of each cluster in the import's status or with slices, sorted by cluster."""
    slices: dict[ClusterId, list[EndpointSlice]] = {
        exporting.cluster: [] for exporting in service_import.status.clusters
    }
    for endpoint_slice in snapshot.by(snapshot.local, BY_SERVICE, f"{key.namespace}/{key.name}"):
        slices.setdefault(endpoint_slice.metadata.labels[SOURCE_CLUSTER], []).append(endpoint_slice)
    return tuple([_backends_in(cluster, slices[cluster], rules) for cluster in sorted(slices)])


def _backends_in(
    cluster: ClusterId, slices: list[EndpointSlice], rules: ClusterSetRules
) -> ClusterBackends:
    """The backends of one cluster from its slices.

    No addresses, with a reason, if none is ready or its Lease has expired; slices with the
    annotation `AGENT` come from another agent, which has no Lease, and are used anyway.
    """
    if len(slices) > 1:
        slices = sorted(slices, key=lambda s: s.metadata.name)
    weighting = _cluster_weight(cluster, slices, rules)
    ports = _merge_ports(slices)
    has_lease = not any(AGENT in s.metadata.annotations for s in slices)
    if cluster in rules.expired and has_lease:
        return ClusterBackends(cluster, weighting, ports, (), LEASE_EXPIRED)
    addresses: tuple[EndpointAddress, ...] = ()
    for endpoint_slice in slices:
        addresses += _ready_addresses(endpoint_slice)
    return ClusterBackends(
        cluster, weighting, ports, addresses, "" if addresses else _exclusion_reason(slices)
    )


def _cluster_weight(
    cluster: ClusterId, slices: list[EndpointSlice], rules: ClusterSetRules
) -> Weighting:
    """The weight and priority in annotations of a cluster's slices, else those of the ClusterSet.

    Slices written by Hanse without annotations have the defaults, whatever the ClusterSet says now.
    Of several slices the last counts.
    """
    weighting = rules.weights.get(cluster, _DEFAULT_WEIGHT)
    for endpoint_slice in slices:
        annotations = endpoint_slice.metadata.annotations
        if not annotations and weighting == _DEFAULT_WEIGHT:
            continue
        default = (
            _DEFAULT_WEIGHT
            if endpoint_slice.metadata.labels.get(MANAGED_BY) == DOMAIN
            else weighting
        )
        weight, priority = (
            _parse_share(annotations.get(WEIGHT, "")),
            _parse_share(annotations.get(PRIORITY, "")),
        )
        weighting = Weighting(
            default.weight if weight is None else weight,
            default.priority if priority is None else priority,
        )
    return weighting


def _parse_share(text: str) -> int | None:
    """Parse an annotation; None if it is not a decimal number of up to five digits."""
    return parse_number(text, 99_999)


def _ready_addresses(endpoint_slice: EndpointSlice) -> tuple[EndpointAddress, ...]:
    """The valid addresses of a slice's ready endpoints, each with its host name or dashed address.

    An unset ready condition counts as ready; the label is in lower case.
    """
    ports = endpoint_slice.ports or ()
    addresses: list[EndpointAddress] = []
    for endpoint in endpoint_slice.endpoints or ():
        if endpoint.conditions.ready is False:
            continue
        for text in endpoint.addresses:
            rdata = address_rdata(text)
            if rdata is not None:
                label = endpoint.hostname or dashed_address(text)
                addresses.append(EndpointAddress(label.lower(), rdata, ports))
    return tuple(addresses)


def _exclusion_reason(slices: list[EndpointSlice]) -> str:
    """Why a cluster has no ready address: no slices, no endpoints, or none ready."""
    if not slices:
        return NO_SLICES
    return NOT_READY if any(s.endpoints for s in slices) else NO_BACKENDS


def _merge_ports(slices: list[EndpointSlice]) -> tuple[EndpointPort, ...]:
    """The ports of all slices; of those with the same name, protocol and number the last."""
    if len(slices) == 1:
        return slices[0].ports or ()
    ports = [port for s in slices for port in s.ports or ()]
    return tuple({(p.name, p.protocol, p.port): p for p in ports}.values())
