"""Who offers a service, and who is left out of its answers and why."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from hanse.features.services.names import DOMAIN, PRIORITY, SERVICE_NAME, SOURCE_CLUSTER, WEIGHT
from hanse.model.dns.records import address_rdata
from hanse.model.dns.zones import View
from hanse.model.facts import LeaseLiveness, Role
from hanse.model.kinds.discovery import MANAGED_BY, EndpointPort, EndpointSlice
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec, MemberSettings, Profile
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Index, Snapshot

LEASE_EXPIRED = "its Lease on the broker has run out"
NO_BACKENDS = "it has no endpoints"
NOT_READY = "none of its endpoints is ready"
NO_SLICES = "it exports the service, and none of its slices has arrived"
NO_WEIGHT = "its weight is 0, and others are ready"
LOWER_PRIORITY = "a cluster of higher priority is ready"
LOCAL_IS_READY = "the local cluster is ready and comes first"


def _service(endpoint_slice: EndpointSlice) -> Iterator[str]:
    name = endpoint_slice.metadata.labels.get(SERVICE_NAME)
    if name and SOURCE_CLUSTER in endpoint_slice.metadata.labels:
        yield f"{endpoint_slice.metadata.namespace}/{name}"


def _source(endpoint_slice: EndpointSlice) -> Iterator[str]:
    if (
        SERVICE_NAME in endpoint_slice.metadata.labels
        and SOURCE_CLUSTER in endpoint_slice.metadata.labels
    ):
        yield endpoint_slice.metadata.labels[SOURCE_CLUSTER]


BY_SERVICE = Index(EndpointSlice, "dns-service", _service)
BY_CLUSTER = Index(EndpointSlice, "dns-cluster", _source)


class ClusterWeight(Struct, frozen=True, gc=False):
    """How much of the answers a cluster gets: those of the highest priority, by weight."""

    weight: int = 1
    priority: int = MemberSettings(id="").priority


_USUAL = ClusterWeight()


class ClusterSetRules(Struct, frozen=True):
    """What the fleet says about answers."""

    profile: Profile
    shares: Mapping[ClusterId, ClusterWeight]
    silent: frozenset[ClusterId]
    """Clusters whose Lease on the broker ran out."""


class EndpointAddress(Struct, frozen=True, gc=False):
    """One ready address, and the label of its pod: the host name, else the address dashed."""

    label: str
    rdata: bytes
    ports: tuple[EndpointPort, ...]


class ClusterBackends(Struct, frozen=True, gc=False):
    """What one cluster has of a service."""

    cluster: ClusterId
    share: ClusterWeight
    ports: tuple[EndpointPort, ...]
    addresses: tuple[EndpointAddress, ...]
    """Its ready addresses; none when it is left out."""
    excluded: str = ""
    """Why nothing of it is answered; empty when something is."""


def clusterset_rules(view: View, snapshot: Snapshot) -> ClusterSetRules:
    """The rules of the fleet's ClusterSet, or the defaults; a view may follow another profile."""
    spec = ClusterSetSpec()
    brokers = snapshot.clusters(Role.BROKER)
    for where in (*brokers, snapshot.local):
        found = sorted(snapshot.all(where, ClusterSet), key=lambda c: c.metadata.name)
        if found:
            spec = found[0].spec
            break
    silent = frozenset(
        pulse.lease
        for pulse in snapshot.facts(LeaseLiveness)
        if not pulse.alive and pulse.where in brokers and pulse.lease != snapshot.local
    )
    shares = {member.id: ClusterWeight(member.weight, member.priority) for member in spec.clusters}
    return ClusterSetRules(view.profile or spec.profile, shares, silent)


def cluster_backends(
    key: Key, told: ServiceImport, rules: ClusterSetRules, snapshot: Snapshot
) -> tuple[ClusterBackends, ...]:
    """What each exporting cluster has of a service, in the order of their names."""
    slices: dict[ClusterId, list[EndpointSlice]] = {
        exporting.cluster: [] for exporting in told.status.clusters
    }
    for endpoint_slice in snapshot.by(snapshot.local, BY_SERVICE, f"{key.namespace}/{key.name}"):
        slices.setdefault(endpoint_slice.metadata.labels[SOURCE_CLUSTER], []).append(endpoint_slice)
    return tuple([_offer(cluster, slices[cluster], rules) for cluster in sorted(slices)])


def _offer(
    cluster: ClusterId, slices: list[EndpointSlice], rules: ClusterSetRules
) -> ClusterBackends:
    if len(slices) > 1:
        slices = sorted(slices, key=lambda endpoint_slice: endpoint_slice.metadata.name)
    share = _share(cluster, slices, rules)
    ports = _ports(slices)
    if cluster in rules.silent:
        return ClusterBackends(cluster, share, ports, (), LEASE_EXPIRED)
    addresses: tuple[EndpointAddress, ...] = ()
    for endpoint_slice in slices:
        addresses += _spots(endpoint_slice)
    return ClusterBackends(cluster, share, ports, addresses, "" if addresses else _why_none(slices))


def _share(
    cluster: ClusterId, slices: list[EndpointSlice], rules: ClusterSetRules
) -> ClusterWeight:
    """What slices of ours say, which is what holds; of others the fleet's settings are used."""
    share = rules.shares.get(cluster, _USUAL)
    for endpoint_slice in slices:
        marks = endpoint_slice.metadata.annotations
        if not marks and share == _USUAL:
            continue
        usual = _USUAL if endpoint_slice.metadata.labels.get(MANAGED_BY) == DOMAIN else share
        weight, priority = _number(marks.get(WEIGHT, "")), _number(marks.get(PRIORITY, ""))
        share = ClusterWeight(
            usual.weight if weight is None else weight,
            usual.priority if priority is None else priority,
        )
    return share


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else None


def _spots(endpoint_slice: EndpointSlice) -> tuple[EndpointAddress, ...]:
    ports = endpoint_slice.ports or ()
    addresses: list[EndpointAddress] = []
    for endpoint in endpoint_slice.endpoints or ():
        if endpoint.conditions.ready is False:
            continue
        for text in endpoint.addresses:
            rdata = address_rdata(text)
            if rdata is not None:
                label = endpoint.hostname or text.replace(".", "-").replace(":", "-")
                addresses.append(EndpointAddress(label.lower(), rdata, ports))
    return tuple(addresses)


def _why_none(slices: list[EndpointSlice]) -> str:
    if not slices:
        return NO_SLICES
    return NOT_READY if any(endpoint_slice.endpoints for endpoint_slice in slices) else NO_BACKENDS


def _ports(slices: list[EndpointSlice]) -> tuple[EndpointPort, ...]:
    if len(slices) == 1:
        return slices[0].ports or ()
    ports = [port for endpoint_slice in slices for port in endpoint_slice.ports or ()]
    return tuple({(p.name, p.protocol, p.port): p for p in ports}.values())
