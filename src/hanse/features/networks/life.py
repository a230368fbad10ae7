"""The life of one network: what exists for it, what phase it is in, and how it ends."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec
from msgspec import Struct

from hanse.features.networks.addresses import (
    FOR_DNS,
    FOR_KUBERNETES,
    address_in,
    is_inside,
    kept,
    of_the_cluster,
    ranges_of,
    service_cidrs,
)
from hanse.features.networks.aliases import kubernetes_alias, kubernetes_slices
from hanse.features.networks.cluster_policies import network_guard
from hanse.features.networks.dns import dns_service, dns_workload
from hanse.features.networks.guards import pool_guard
from hanse.features.networks.names import (
    DNS,
    FINALIZER,
    RANGE_OF,
    NetworkName,
    fitted,
    is_ours,
    parsed,
)
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.peering import peers_agreed
from hanse.features.networks.providers import Provider
from hanse.features.networks.ranges import Range, faults_of, overlaps, range_in
from hanse.features.networks.sight import (
    PODS,
    SERVICES,
    ipam_of,
    is_served,
    named,
    namespaces_of,
)
from hanse.model.conditions import Condition, condition, find, merged
from hanse.model.facts import WriteOutcome
from hanse.model.keys import Key
from hanse.model.kinds.admission import ValidatingAdmissionPolicy
from hanse.model.kinds.core import Service
from hanse.model.kinds.networking import IPAddress, ServiceCIDR
from hanse.model.kinds.networks import Network, Phase, Tenant
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import ClusterObjectRef, Object, Ref, Wire, ref_of
from hanse.model.plan import Desired, EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

DRAINED = "Drained"
_TROUBLE = ("Foreign", "Refused", "Forbidden")


class Stand(Struct, frozen=True):
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
    provision = provider.up(network, snapshot)
    desired = (*_provided(provision.objects, snapshot), *wanted(network, snapshot, options))
    stand = Stand("Failed", "Invalid", "; ".join(faults)[:4000])
    if not faults:
        stand = (
            Stand(provision.state, "Provider", provision.message)
            if provision.state != "Ready"
            else _standing(network, desired, snapshot)
        )
    return _told(network, stand, desired, snapshot)


def is_winding_up(network: Network) -> bool:
    """Whether nobody uses a network any more that is to go."""
    drained = find(network.status.conditions, DRAINED)
    gone = network.metadata.deletion_timestamp is not None
    return gone and drained is not None and drained.status == "True"


def wanted(network: Network, snapshot: Snapshot, options: NetworksOptions) -> Iterator[Desired]:
    """A network's ranges, its DNS and its `kubernetes`."""
    name = parsed(network.metadata.name)
    pool = pool_of(network, snapshot)
    spaces = [n.metadata.name for n in namespaces_of(name.tenant, snapshot)]
    cidrs = service_cidrs(name, pool)
    if pool and is_served(ValidatingAdmissionPolicy, snapshot):
        yield from (Desired(guard, snapshot.local) for guard in pool_guard(name, pool, spaces))
    yield from (Desired(cidr, snapshot.local) for cidr in cidrs)
    if options.guard and is_served(ClusterNetworkPolicy, snapshot):
        peers = tuple(p for mine, p in peers_agreed(name.tenant, snapshot) if mine == name.network)
        yield from (Desired(guard, snapshot.local) for guard in network_guard(name, peers))
    if cidrs and not _ready(cidrs[0], snapshot):
        return
    if name.dns_namespace in spaces:
        yield from _names(network, pool, spaces, options, snapshot)
    if name.alias_namespace in spaces:
        address = _own_address(
            name.kubernetes, name.alias_namespace, pool, FOR_KUBERNETES, snapshot
        )
        yield Desired(kubernetes_alias(name, address, snapshot), snapshot.local, step=1)
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
    name = parsed(network.metadata.name)
    address = dns_address(network, pool, snapshot)
    if address is not None:
        yield Desired(dns_service(name, address), snapshot.local, step=1)
        objects = dns_workload(name, spaces, options)
        yield from (Desired(obj, snapshot.local, step=2) for obj in objects)


def pool_of(network: Network, snapshot: Snapshot) -> tuple[Range, ...]:
    """The ranges that are the network's to use: those that clash with nobody's before it."""
    if ipam_of(network) == "Kubernetes" or not is_served(ServiceCIDR, snapshot):
        return ()
    if not any(faults_of(network, snapshot, of_all=False)):
        return ranges_of(network)
    standing = [
        r
        for c in snapshot.all(snapshot.local, ServiceCIDR)
        if c.metadata.labels.get(RANGE_OF) == fitted(network.metadata.name)
        for text in c.spec.cidrs
        if (r := range_in(text)) is not None
    ]
    return tuple(r for r in ranges_of(network) if any(r == s or overlaps(r, s) for s in standing))


def dns_address(network: Network, pool: tuple[Range, ...], snapshot: Snapshot) -> str | None:
    """The address of a network's DNS; empty: the cluster chooses; None: not known yet."""
    name = parsed(network.metadata.name)
    if ipam_of(network) == "External":
        return network.status.dns_service_ip or None
    return _own_address(name.kube_dns, name.dns_namespace, pool, FOR_DNS, snapshot)


def _own_address(
    service: str, namespace: str, pool: tuple[Range, ...], place: int, snapshot: Snapshot
) -> str:
    standing = snapshot.get(snapshot.local, Service, service, namespace)
    held = address_in(standing.spec.cluster_ip) if standing is not None else None
    if pool:
        inside = held is not None and is_inside(held, pool)
        return str(held) if inside else kept(pool[0], place)
    return str(held or "") or of_the_cluster(Ref(Service.kind, service, namespace), snapshot)


def _ready(cidr: ServiceCIDR, snapshot: Snapshot) -> bool:
    """Whether the API server gives out addresses of a range; a server that does not say does."""
    standing = snapshot.get(snapshot.local, ServiceCIDR, cidr.metadata.name)
    if standing is None:
        return False
    told = [c for c in standing.status.conditions if c.type == "Ready"]
    return bool(told) and told[0].status == "True"


def _faults(network: Network, snapshot: Snapshot) -> Iterator[str]:
    name = parsed(network.metadata.name)
    if network.spec.tenant != name.tenant or not name.network:
        yield (
            f"spec.tenant: {network.spec.tenant!r} does not agree with the name "
            f"{network.metadata.name}; name it <tenant>.<network>"
        )
    elif snapshot.get(snapshot.local, Tenant, name.tenant) is None:
        yield f"spec.tenant: there is no tenant {name.tenant}; create Tenant {name.tenant}"
    if network.spec.type == "vpc" and not network.spec.vpc_id:
        yield "spec.vpcID: it is needed for type vpc; set it"
    if ipam_of(network) == "Arktos":
        if not network.spec.service.cidrs:
            yield "spec.service.cidrs: ipam Arktos needs at least one range; add one"
        elif not is_served(ServiceCIDR, snapshot):
            yield (
                "spec.service.cidrs: this cluster does not serve ServiceCIDR "
                "(Kubernetes 1.33 does); use ipam Kubernetes"
            )
    yield from faults_of(network, snapshot, of_all=False)


def _provided(objects: tuple[Object, ...], snapshot: Snapshot) -> Iterator[Desired]:
    return (Desired(obj, snapshot.local) for obj in objects)


def _standing(network: Network, desired: tuple[Desired, ...], snapshot: Snapshot) -> Stand:
    """How far a network has come whose provider is done."""
    for one in desired:
        outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(one.where, ref_of(one.object)))
        if outcome is not None and outcome.result in _TROUBLE:
            return Stand("Failed", outcome.result, outcome.message)
    if ipam_of(network) == "External" and not network.status.dns_service_ip:
        return Stand("Pending", "NoAddress", "waiting for the provider to set status.dnsServiceIP")
    if not dns_ip(network, snapshot):
        return Stand("Pending", "NoAddress", "waiting for the address of the network's DNS")
    return Stand("Ready", "Ready")


def dns_ip(network: Network, snapshot: Snapshot) -> str:
    """The address where a network's names are answered; empty until it is reserved."""
    name = parsed(network.metadata.name)
    service = snapshot.get(snapshot.local, Service, name.kube_dns, name.dns_namespace)
    return (
        service.spec.cluster_ip if service is not None and is_ours(service.metadata.labels) else ""
    )


def _told(network: Network, stand: Stand, desired: tuple[Desired, ...], snapshot: Snapshot) -> Plan:
    place = ClusterObjectRef(snapshot.local, ref_of(network))
    ready = condition("Ready", stand.phase == "Ready", stand.reason, stand.message)
    status: Wire = {
        "phase": stand.phase,
        "message": stand.message or None,
        "conditions": _conditions(network, [ready], snapshot),
    }
    if ipam_of(network) != "External":
        status["dnsServiceIP"] = dns_ip(network, snapshot) or None
    events: tuple[EventRequest, ...] = ()
    if stand.phase != network.status.phase and stand.phase in ("Failed", "Unknown"):
        events = (EventRequest(place, stand.phase, stand.message, "Warning"),)
    again = timedelta(seconds=5) if stand.phase == "Unknown" else None
    patch = Patch(place, {"status": status}, "status")
    return Plan(desired, patches=(patch,), events=events, again_after=again)


def _held(network: Network, snapshot: Snapshot) -> Plan:
    """The finalizer first: what is provided must be taken down again."""
    finalizers = [*network.metadata.finalizers, FINALIZER]
    patch = Patch(
        ClusterObjectRef(snapshot.local, ref_of(network)), {"metadata": {"finalizers": finalizers}}
    )
    return Plan(patches=(patch,))


def users_of(name: NetworkName, snapshot: Snapshot) -> list[Object]:
    """Pods and Services that are in a network, other than our own."""
    pods = [p for p in snapshot.by(snapshot.local, PODS, str(name)) if DNS not in p.metadata.labels]
    services = [
        s
        for s in snapshot.by(snapshot.local, SERVICES, str(name))
        if not is_ours(s.metadata.labels)
    ]
    return [*pods, *services]


def _ending(
    network: Network, snapshot: Snapshot, options: NetworksOptions, provider: Provider
) -> Plan:
    """Wait for those who use it, then take everything down, then let it go."""
    if FINALIZER not in network.metadata.finalizers:
        return Plan()
    users = users_of(parsed(network.metadata.name), snapshot)
    if users and not is_winding_up(network):
        message = f"waiting for {named(users)} to be deleted"
        desired = (
            *_provided(provider.up(network, snapshot).objects, snapshot),
            *wanted(network, snapshot, options),
        )
        told = condition(DRAINED, False, "InUse", message)
        return Plan(desired, patches=(_ends(network, message, told, snapshot),))
    left = list(_left(network, snapshot))
    provision = provider.down(network, snapshot)
    if is_winding_up(network) and not left and provision.gone:
        finalizers = [f for f in network.metadata.finalizers if f != FINALIZER]
        place = ClusterObjectRef(snapshot.local, ref_of(network))
        return Plan(patches=(Patch(place, {"metadata": {"finalizers": finalizers or None}}),))
    message = _removing(network, left, snapshot) if left else provision.message
    told = condition(DRAINED, True, "Unused")
    return Plan(
        tuple(_provided(provision.objects, snapshot)),
        patches=(_ends(network, message, told, snapshot),),
    )


def _removing(network: Network, left: list[Object], snapshot: Snapshot) -> str:
    """What goes, and whose addresses keep ranges from going: an API server waits for them."""
    message = f"removing {named(left)}"
    if not all(isinstance(one, ServiceCIDR) for one in left):
        return message
    own = set(map(ref_of, snapshot.by(snapshot.local, SERVICES, network.metadata.name)))
    ranges = ranges_of(network)
    holders = [
        service
        for address in snapshot.all(snapshot.local, IPAddress)
        if (at := address_in(address.metadata.name)) is not None and is_inside(at, ranges)
        if (by := address.spec.parent_ref) is not None
        if (service := snapshot.get(snapshot.local, Service, by.name, by.namespace)) is not None
        if ref_of(service) not in own
    ]
    return f"{message}; delete {named(holders)}, whose addresses are in it" if holders else message


def _left(network: Network, snapshot: Snapshot) -> Iterator[Object]:
    """What of ours still stands for a network."""
    name = parsed(network.metadata.name)
    for service in snapshot.by(snapshot.local, SERVICES, str(name)):
        if is_ours(service.metadata.labels):
            yield service
    for pod in snapshot.by(snapshot.local, PODS, str(name)):
        if DNS in pod.metadata.labels:
            yield pod
    for cidr in snapshot.all(snapshot.local, ServiceCIDR):
        if cidr.metadata.labels.get(RANGE_OF) == fitted(str(name)):
            yield cidr


def _ends(network: Network, message: str, told: Condition, snapshot: Snapshot) -> Patch:
    ready = condition("Ready", False, "Terminating", message)
    status: Wire = {
        "phase": "Terminating",
        "message": message or None,
        "conditions": _conditions(network, [ready, told], snapshot),
    }
    return Patch(ClusterObjectRef(snapshot.local, ref_of(network)), {"status": status}, "status")


def _conditions(network: Network, wanted: list[Condition], snapshot: Snapshot) -> object:
    after = merged(network.status.conditions, wanted, snapshot.now, network.metadata.generation)
    return msgspec.to_builtins(after)
