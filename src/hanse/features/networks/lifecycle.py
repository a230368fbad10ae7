"""The life of one network: what exists for it, what phase it is in, and how it ends."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec
from msgspec import Struct

from hanse.features.networks.addresses import (
    DNS_OFFSET,
    KUBERNETES_OFFSET,
    is_in_ranges,
    parse_address,
    pick_cluster_address,
    reserved_address,
    service_cidrs,
    service_ranges,
)
from hanse.features.networks.admission_policies import address_pool_policy
from hanse.features.networks.dns_server import dns_service, dns_workload
from hanse.features.networks.isolation import cluster_network_policies
from hanse.features.networks.kubernetes_service import kubernetes_service, kubernetes_slices
from hanse.features.networks.lookups import (
    PODS_BY_NETWORK,
    SERVICES_BY_NETWORK,
    ipam_mode,
    is_served,
    summarize_objects,
    tenant_namespaces,
)
from hanse.features.networks.names import (
    DNS,
    FINALIZER,
    RANGE_OF,
    NetworkName,
    is_managed,
    parse_network_name,
    shorten_name,
)
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.peering import agreed_peers
from hanse.features.networks.providers import Provider
from hanse.features.networks.ranges import Range, overlaps, parse_range, validate_ranges
from hanse.model.conditions import Condition, condition, find_condition, merge_conditions
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.admission import ValidatingAdmissionPolicy
from hanse.model.kinds.core import Service
from hanse.model.kinds.networking import IPAddress, ServiceCIDR
from hanse.model.kinds.networks import Network, Phase, Tenant
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import ClusterObjectRef, Object, ObjectRef, Wire, object_ref
from hanse.model.plan import Desired, EventRequest, Key, Patch, Plan
from hanse.model.snapshot import Snapshot

DRAINED = "Drained"
_TROUBLE = ("Foreign", "Refused", "Forbidden")


class NetworkPhase(Struct, frozen=True):
    """Where a network is in its life, and why."""

    phase: Phase
    reason: str
    message: str = ""


def plan_network(
    key: Key, snapshot: Snapshot, options: NetworksOptions, provider: Provider | None
) -> Plan:
    """Everything of one network but what is in its tenant's namespaces."""
    network = snapshot.get(snapshot.local, Network, key.name)
    if network is None or provider is None:
        return Plan()
    if network.metadata.deletion_timestamp is not None:
        return _ending(network, snapshot, options, provider)
    if FINALIZER not in network.metadata.finalizers:
        return _held(network, snapshot)
    faults = tuple(_faults(network, snapshot))
    provision = provider.provision(network, snapshot)
    desired = (
        *_provided(provision.objects, snapshot),
        *desired_objects(network, snapshot, options),
    )
    stand = NetworkPhase("Failed", "Invalid", "; ".join(faults)[:4000])
    if not faults:
        stand = (
            NetworkPhase(provision.state, "Provider", provision.message)
            if provision.state != "Ready"
            else _standing(network, desired, snapshot)
        )
    return _told(network, stand, desired, snapshot)


def is_drained(network: Network) -> bool:
    """Whether nobody uses a network any more that is to go."""
    drained = find_condition(network.status.conditions, DRAINED)
    gone = network.metadata.deletion_timestamp is not None
    return gone and drained is not None and drained.status == "True"


def desired_objects(
    network: Network, snapshot: Snapshot, options: NetworksOptions
) -> Iterator[Desired]:
    """A network's ranges, its DNS and its `kubernetes`."""
    name = parse_network_name(network.metadata.name)
    pool = allocated_ranges(network, snapshot)
    spaces = [n.metadata.name for n in tenant_namespaces(name.tenant, snapshot)]
    cidrs = service_cidrs(name, pool)
    if pool and is_served(ValidatingAdmissionPolicy, snapshot):
        yield from (
            Desired(guard, snapshot.local) for guard in address_pool_policy(name, pool, spaces)
        )
    yield from (Desired(cidr, snapshot.local) for cidr in cidrs)
    if options.guard and is_served(ClusterNetworkPolicy, snapshot):
        peers = tuple(p for mine, p in agreed_peers(name.tenant, snapshot) if mine == name.network)
        yield from (
            Desired(guard, snapshot.local) for guard in cluster_network_policies(name, peers)
        )
    if cidrs and not _ready(cidrs[0], snapshot):
        return
    if name.dns_namespace in spaces:
        yield from _names(network, pool, spaces, options, snapshot)
    if name.alias_namespace in spaces:
        address = _own_address(
            name.kubernetes, name.alias_namespace, pool, KUBERNETES_OFFSET, snapshot
        )
        yield Desired(kubernetes_service(name, address, snapshot), snapshot.local, step=1)
        pieces = kubernetes_slices(name, snapshot)
        yield from (Desired(piece, snapshot.local, step=2) for piece in pieces)


def _names(
    network: Network,
    pool: tuple[Range, ...],
    spaces: list[str],
    options: NetworksOptions,
    snapshot: Snapshot,
) -> Iterator[Desired]:
    """What answers a network's names, once its address is known."""
    name = parse_network_name(network.metadata.name)
    address = dns_service_address(network, pool, snapshot)
    if address is not None:
        yield Desired(dns_service(name, address), snapshot.local, step=1)
        objects = dns_workload(name, spaces, options)
        yield from (Desired(obj, snapshot.local, step=2) for obj in objects)


def allocated_ranges(network: Network, snapshot: Snapshot) -> tuple[Range, ...]:
    """The ranges that are the network's to use: those that clash with nobody's before it."""
    if ipam_mode(network) == "Kubernetes" or not is_served(ServiceCIDR, snapshot):
        return ()
    if not any(validate_ranges(network, snapshot, include_newer=False)):
        return service_ranges(network)
    standing = [
        r
        for c in snapshot.all(snapshot.local, ServiceCIDR)
        if c.metadata.labels.get(RANGE_OF) == shorten_name(network.metadata.name)
        for text in c.spec.cidrs
        if (r := parse_range(text)) is not None
    ]
    return tuple(
        r for r in service_ranges(network) if any(r == s or overlaps(r, s) for s in standing)
    )


def dns_service_address(
    network: Network, pool: tuple[Range, ...], snapshot: Snapshot
) -> str | None:
    """The address of a network's DNS; empty: the cluster chooses; None: not known yet."""
    name = parse_network_name(network.metadata.name)
    if ipam_mode(network) == "External":
        return network.status.dns_service_ip or None
    return _own_address(name.kube_dns, name.dns_namespace, pool, DNS_OFFSET, snapshot)


def _own_address(
    service: str, namespace: str, pool: tuple[Range, ...], place: int, snapshot: Snapshot
) -> str:
    standing = snapshot.get(snapshot.local, Service, service, namespace)
    held = parse_address(standing.spec.cluster_ip) if standing is not None else None
    if pool:
        inside = held is not None and is_in_ranges(held, pool)
        return str(held) if inside else reserved_address(pool[0], place)
    return str(held or "") or pick_cluster_address(
        ObjectRef(Service.kind, service, namespace), snapshot
    )


def _ready(cidr: ServiceCIDR, snapshot: Snapshot) -> bool:
    """Whether the API server gives out addresses of a range; a server that does not say does."""
    standing = snapshot.get(snapshot.local, ServiceCIDR, cidr.metadata.name)
    if standing is None:
        return False
    told = [c for c in standing.status.conditions if c.type == "Ready"]
    return bool(told) and told[0].status == "True"


def _faults(network: Network, snapshot: Snapshot) -> Iterator[str]:
    name = parse_network_name(network.metadata.name)
    if network.spec.tenant != name.tenant or not name.network:
        yield (
            f"spec.tenant: {network.spec.tenant!r} does not agree with the name "
            f"{network.metadata.name}; name it <tenant>.<network>"
        )
    elif snapshot.get(snapshot.local, Tenant, name.tenant) is None:
        yield f"spec.tenant: there is no tenant {name.tenant}; create Tenant {name.tenant}"
    if network.spec.type == "vpc" and not network.spec.vpc_id:
        yield "spec.vpcID: it is needed for type vpc; set it"
    if ipam_mode(network) == "Arktos":
        if not network.spec.service.cidrs:
            yield "spec.service.cidrs: ipam Arktos needs at least one range; add one"
        elif not is_served(ServiceCIDR, snapshot):
            yield (
                "spec.service.cidrs: this cluster does not serve ServiceCIDR "
                "(Kubernetes 1.33 does); use ipam Kubernetes"
            )
    yield from validate_ranges(network, snapshot, include_newer=False)


def _provided(objects: tuple[Object, ...], snapshot: Snapshot) -> Iterator[Desired]:
    return (Desired(obj, snapshot.local) for obj in objects)


def _standing(network: Network, desired: tuple[Desired, ...], snapshot: Snapshot) -> NetworkPhase:
    """How far a network has come whose provider is done."""
    for one in desired:
        outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(one.where, object_ref(one.object)))
        if outcome is not None and outcome.result in _TROUBLE:
            return NetworkPhase("Failed", outcome.result, outcome.message)
    if ipam_mode(network) == "External" and not network.status.dns_service_ip:
        return NetworkPhase(
            "Pending", "NoAddress", "waiting for the provider to set status.dnsServiceIP"
        )
    if not dns_ip(network, snapshot):
        return NetworkPhase("Pending", "NoAddress", "waiting for the address of the network's DNS")
    return NetworkPhase("Ready", "Ready")


def dns_ip(network: Network, snapshot: Snapshot) -> str:
    """The address where a network's names are answered; empty until it is reserved."""
    name = parse_network_name(network.metadata.name)
    service = snapshot.get(snapshot.local, Service, name.kube_dns, name.dns_namespace)
    return (
        service.spec.cluster_ip
        if service is not None and is_managed(service.metadata.labels)
        else ""
    )


def _told(
    network: Network, stand: NetworkPhase, desired: tuple[Desired, ...], snapshot: Snapshot
) -> Plan:
    place = ClusterObjectRef(snapshot.local, object_ref(network))
    ready = condition("Ready", stand.phase == "Ready", stand.reason, stand.message)
    status: Wire = {
        "phase": stand.phase,
        "message": stand.message or None,
        "conditions": _conditions(network, [ready], snapshot),
    }
    if ipam_mode(network) != "External":
        status["dnsServiceIP"] = dns_ip(network, snapshot) or None
    events: tuple[EventRequest, ...] = ()
    if stand.phase != network.status.phase and stand.phase in ("Failed", "Unknown"):
        events = (EventRequest(place, stand.phase, stand.message, "Warning"),)
    again = timedelta(seconds=5) if stand.phase == "Unknown" else None
    patch = Patch(place, {"status": status}, "status")
    return Plan(desired, patches=(patch,), events=events, requeue_after=again)


def _held(network: Network, snapshot: Snapshot) -> Plan:
    """The finalizer first: what is provided must be taken down again."""
    finalizers = [*network.metadata.finalizers, FINALIZER]
    patch = Patch(
        ClusterObjectRef(snapshot.local, object_ref(network)),
        {"metadata": {"finalizers": finalizers}},
    )
    return Plan(patches=(patch,))


def network_consumers(name: NetworkName, snapshot: Snapshot) -> list[Object]:
    """Pods and Services that are in a network, other than our own."""
    pods = [
        p
        for p in snapshot.by(snapshot.local, PODS_BY_NETWORK, str(name))
        if DNS not in p.metadata.labels
    ]
    services = [
        s
        for s in snapshot.by(snapshot.local, SERVICES_BY_NETWORK, str(name))
        if not is_managed(s.metadata.labels)
    ]
    return [*pods, *services]


def _ending(
    network: Network, snapshot: Snapshot, options: NetworksOptions, provider: Provider
) -> Plan:
    """Wait for those who use it, then take everything down, then let it go."""
    if FINALIZER not in network.metadata.finalizers:
        return Plan()
    users = network_consumers(parse_network_name(network.metadata.name), snapshot)
    if users and not is_drained(network):
        message = f"waiting for {summarize_objects(users)} to be deleted"
        desired = (
            *_provided(provider.provision(network, snapshot).objects, snapshot),
            *desired_objects(network, snapshot, options),
        )
        told = condition(DRAINED, False, "InUse", message)
        return Plan(desired, patches=(_ends(network, message, told, snapshot),))
    left = list(_left(network, snapshot))
    provision = provider.deprovision(network, snapshot)
    if is_drained(network) and not left and provision.gone:
        finalizers = [f for f in network.metadata.finalizers if f != FINALIZER]
        place = ClusterObjectRef(snapshot.local, object_ref(network))
        return Plan(patches=(Patch(place, {"metadata": {"finalizers": finalizers or None}}),))
    message = _removing(network, left, snapshot) if left else provision.message
    told = condition(DRAINED, True, "Unused")
    return Plan(
        tuple(_provided(provision.objects, snapshot)),
        patches=(_ends(network, message, told, snapshot),),
    )


def _removing(network: Network, left: list[Object], snapshot: Snapshot) -> str:
    """What goes, and whose addresses keep ranges from going: an API server waits for them."""
    message = f"removing {summarize_objects(left)}"
    if not all(isinstance(one, ServiceCIDR) for one in left):
        return message
    own = set(
        map(object_ref, snapshot.by(snapshot.local, SERVICES_BY_NETWORK, network.metadata.name))
    )
    ranges = service_ranges(network)
    holders = [
        service
        for address in snapshot.all(snapshot.local, IPAddress)
        if (at := parse_address(address.metadata.name)) is not None and is_in_ranges(at, ranges)
        if (by := address.spec.parent_ref) is not None
        if (service := snapshot.get(snapshot.local, Service, by.name, by.namespace)) is not None
        if object_ref(service) not in own
    ]
    return (
        f"{message}; delete {summarize_objects(holders)}, whose addresses are in it"
        if holders
        else message
    )


def _left(network: Network, snapshot: Snapshot) -> Iterator[Object]:
    """What of ours still stands for a network."""
    name = parse_network_name(network.metadata.name)
    for service in snapshot.by(snapshot.local, SERVICES_BY_NETWORK, str(name)):
        if is_managed(service.metadata.labels):
            yield service
    for pod in snapshot.by(snapshot.local, PODS_BY_NETWORK, str(name)):
        if DNS in pod.metadata.labels:
            yield pod
    for cidr in snapshot.all(snapshot.local, ServiceCIDR):
        if cidr.metadata.labels.get(RANGE_OF) == shorten_name(str(name)):
            yield cidr


def _ends(network: Network, message: str, told: Condition, snapshot: Snapshot) -> Patch:
    ready = condition("Ready", False, "Terminating", message)
    status: Wire = {
        "phase": "Terminating",
        "message": message or None,
        "conditions": _conditions(network, [ready, told], snapshot),
    }
    return Patch(
        ClusterObjectRef(snapshot.local, object_ref(network)), {"status": status}, "status"
    )


def _conditions(network: Network, desired_objects: list[Condition], snapshot: Snapshot) -> object:
    after = merge_conditions(
        network.status.conditions, desired_objects, snapshot.now, network.metadata.generation
    )
    return msgspec.to_builtins(after)
