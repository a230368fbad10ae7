"""The lifecycle of a network: its objects, its phase, and its finalization."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
from hanse.features.networks.dns_server import (
    dns_service,
    dns_workload,
    is_answering,
    is_shared,
    shared_slices,
)
from hanse.features.networks.external_ipam import (
    RETRY_INTERVAL,
    alias_address,
    describe,
    has_provider,
)
from hanse.features.networks.isolation import cluster_network_policies
from hanse.features.networks.isolation_plan import isolated_condition
from hanse.features.networks.kubernetes_service import (
    kubernetes_endpoints,
    kubernetes_service,
    kubernetes_slices,
)
from hanse.features.networks.lookups import (
    ipam_mode,
    is_served,
    tenant_namespaces,
)
from hanse.features.networks.names import (
    FINALIZER,
    RANGE_OF,
    is_managed,
    parse_network_name,
    shorten_name,
)
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.peering import agreed_peers
from hanse.features.networks.pool_policies import AddressPool
from hanse.features.networks.providers import PROVISIONED, Provider
from hanse.features.networks.ranges import (
    Range,
    overlaps,
    parse_range,
    validate_ranges,
    validate_vpc,
)
from hanse.model.conditions import Condition, condition, find_condition, merge_conditions
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.kinds.networks import Network, Phase, Tenant
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import ClusterObjectRef, Object, ObjectRef, Wire, object_ref
from hanse.model.plan import Desired, Patch, Plan, Question
from hanse.model.snapshot import Snapshot
from hanse.model.status import condition_events


class NetworkPhase(Struct, frozen=True):
    """The phase of a network with its reason."""

    phase: Phase
    reason: str
    message: str = ""


def plan_network(
    network: Network, snapshot: Snapshot, options: NetworksOptions, provider: Provider
) -> Plan:
    """The objects, status and questions of a network that lives; first only its finalizer is added.

    Its phase is Failed if it has faults, though its objects are desired then, too. Else it is the
    provider's, unless that is ready or (without condition Provisioned) has named ranges and DNS
    address; then it is what is observed. Requeued while it asks. Isolation is planned elsewhere.
    """
    if FINALIZER not in network.metadata.finalizers:
        return _add_finalizer(network, snapshot)
    errors = tuple(_validate(network, snapshot))
    provision = provider.provision(network, snapshot)
    network, questions = _described(network, snapshot, options)
    alias = _alias_question(network, snapshot, options)
    desired = (
        *desired_from_provider(provision.objects, snapshot),
        *desired_objects(network, snapshot, options),
    )
    state = NetworkPhase("Failed", "Invalid", "; ".join(errors)[:4000])
    if not errors:
        if provision.state != "Ready" and not _has_provider_facts(network, options):
            reason = "WaitingForProvider" if provision.state == "Pending" else "Provider"
            state = NetworkPhase(provision.state, reason, provision.message)
        else:
            state = _observed_phase(network, desired, snapshot)
    isolated = isolated_condition(network, snapshot, options)
    plan = _status_plan(network, state, isolated, desired, snapshot)
    if not (asked := (*questions, *alias)):
        return plan
    return replace(plan, questions=asked, requeue_after=RETRY_INTERVAL)


def _described(
    network: Network, snapshot: Snapshot, options: NetworksOptions
) -> tuple[Network, tuple[Question, ...]]:
    """The network with ranges and DNS address of its provider in the status, and the question.

    The object in the cluster is not written. Unchanged, without a question, once both are known or
    if there is no provider to ask.
    """
    status = network.status
    known = bool(network.service_cidrs and status.dns_service_ip)
    if known or not has_provider(network, options):
        return network, ()
    said, question = describe(network, snapshot)
    ranges = status.service_cidrs or (() if network.spec.service.cidrs else said.ranges)
    address = status.dns_service_ip or said.dns_service_ip
    status = replace(status, service_cidrs=ranges, dns_service_ip=address)
    return replace(network, status=status), (question,)


def _has_provider_facts(network: Network, options: NetworksOptions) -> bool:
    """Whether a provider that can be asked has given ranges and DNS address.

    False if the Network has condition Provisioned, which decides then.
    """
    reported = find_condition(network.status.conditions, PROVISIONED)
    said = network.service_cidrs and network.status.dns_service_ip
    return reported is None and bool(said) and has_provider(network, options)


def _alias_question(
    network: Network, snapshot: Snapshot, options: NetworksOptions
) -> tuple[Question, ...]:
    """The request for the address of the network's `kubernetes` Service.

    Empty once that Service exists, and without a provider to ask or ranges of the network.
    """
    name = parse_network_name(network.metadata.name)
    current = snapshot.get(snapshot.local, Service, name.kubernetes, name.alias_namespace)
    if current is not None or not has_provider(network, options) or not network.service_cidrs:
        return ()
    return (alias_address(network, name.kubernetes, name.alias_namespace, snapshot)[1],)


def address_pools(snapshot: Snapshot) -> Iterator[AddressPool]:
    """The service ranges of all networks that have ServiceCIDRs, with their tenants' namespaces.

    Networks without such ranges are left out.
    """
    for network in snapshot.all(snapshot.local, Network):
        if ranges := tuple(allocated_ranges(network, snapshot)):
            name = parse_network_name(network.metadata.name)
            namespaces = sorted(n.metadata.name for n in tenant_namespaces(name.tenant, snapshot))
            yield AddressPool(name, ranges, tuple(namespaces))


def desired_objects(
    network: Network, snapshot: Snapshot, options: NetworksOptions
) -> Iterator[Desired]:
    """The ServiceCIDRs, DNS, `kubernetes` Service and, if used, ClusterNetworkPolicy of a network.

    DNS and Service only in namespaces that exist, once the first ServiceCIDR, if any, is Ready, and
    they have an address or the API server allocates it.
    """
    name = parse_network_name(network.metadata.name)
    pool = allocated_ranges(network, snapshot)
    namespaces = [n.metadata.name for n in tenant_namespaces(name.tenant, snapshot)]
    cidrs = service_cidrs(name, pool)
    yield from (Desired(cidr, snapshot.local) for cidr in cidrs)
    if options.admin_policies and is_served(ClusterNetworkPolicy, snapshot):
        peers = tuple(p for mine, p in agreed_peers(name.tenant, snapshot) if mine == name.network)
        yield from (
            Desired(guard, snapshot.local) for guard in cluster_network_policies(name, peers)
        )
    if cidrs and not _is_ready(cidrs[0], snapshot):
        return
    if name.dns_namespace in namespaces:
        yield from _dns_objects(network, pool, namespaces, options, snapshot)
    if name.alias_namespace in namespaces:
        address = _service_address(
            name.kubernetes, name.alias_namespace, pool, KUBERNETES_OFFSET, snapshot
        )
        current = snapshot.get(snapshot.local, Service, name.kubernetes, name.alias_namespace)
        if current is None and has_provider(network, options):
            given, _ = alias_address(network, name.kubernetes, name.alias_namespace, snapshot)
            if not given:
                return
            address = given
        yield Desired(kubernetes_service(name, address, snapshot), snapshot.local, step=1)
        yield Desired(kubernetes_endpoints(name, snapshot), snapshot.local, step=2)
        slices = kubernetes_slices(name, snapshot)
        yield from (Desired(endpoint_slice, snapshot.local, step=2) for endpoint_slice in slices)


def _dns_objects(
    network: Network,
    pool: tuple[Range, ...],
    namespaces: list[str],
    options: NetworksOptions,
    snapshot: Snapshot,
) -> Iterator[Desired]:
    """The Service of a network's DNS and its servers, or EndpointSlices of the shared servers.

    None while its address is not known. A network that moves to the shared servers keeps its own
    until those answer.
    """
    name = parse_network_name(network.metadata.name)
    address = dns_service_address(network, pool, snapshot)
    if address is None:
        return
    yield Desired(dns_service(name, address), snapshot.local, step=1)
    if is_shared(network, options):
        slices = shared_slices(name, snapshot)
        yield from (Desired(one, snapshot.local, step=2) for one in slices)
        own = snapshot.get(snapshot.local, Deployment, name.kube_dns, name.dns_namespace)
        if own is None or is_answering(slices):
            return  # else its own servers stay until the shared ones answer
    objects = dns_workload(name, namespaces, options)
    for obj in objects:  # servers follow the ConfigMap to namespaces that they may read
        yield Desired(obj, snapshot.local, step=3 if isinstance(obj, ConfigMap) else 2)


def allocated_ranges(network: Network, snapshot: Snapshot) -> tuple[Range, ...]:
    """The service ranges for which a network has or gets ServiceCIDRs: all, if they are valid.

    If not, those that overlap ServiceCIDRs which it has already. None with ipam Kubernetes, or if
    the cluster does not serve ServiceCIDR.
    """
    if ipam_mode(network) == "Kubernetes" or not is_served(ServiceCIDR, snapshot):
        return ()
    if not any(validate_ranges(network, snapshot, include_newer=False)):
        return service_ranges(network)
    current = [
        r
        for c in snapshot.all(snapshot.local, ServiceCIDR)
        if c.metadata.labels.get(RANGE_OF) == shorten_name(network.metadata.name)
        for text in c.spec.cidrs
        if (r := parse_range(text)) is not None
    ]
    return tuple(
        r for r in service_ranges(network) if any(r == s or overlaps(r, s) for s in current)
    )


def dns_service_address(
    network: Network, pool: tuple[Range, ...], snapshot: Snapshot
) -> str | None:
    """The address of a network's DNS; empty: the API server allocates; None: not known yet.

    It is status.dnsServiceIP once that is set, and with ipam External nothing else; before, the
    Service's own, or the reserved one of the pool, or without a pool a free one of the cluster.
    """
    name = parse_network_name(network.metadata.name)
    if network.status.dns_service_ip or ipam_mode(network) == "External":
        return network.status.dns_service_ip or None  # pods have it for life
    return _service_address(name.kube_dns, name.dns_namespace, pool, DNS_OFFSET, snapshot)


def _service_address(
    service: str, namespace: str, pool: tuple[Range, ...], offset: int, snapshot: Snapshot
) -> str:
    """The address for one of the network's own Services: the one that it has, if in the pool.

    Else the reserved one at `offset` of the pool's first range. Without a pool the one that it has,
    a free one of the cluster, or empty.
    """
    current = snapshot.get(snapshot.local, Service, service, namespace)
    held_address = parse_address(current.spec.cluster_ip) if current is not None else None
    if pool:
        inside = held_address is not None and is_in_ranges(held_address, pool)
        return str(held_address) if inside else reserved_address(pool[0], offset)
    return str(held_address or "") or pick_cluster_address(
        ObjectRef(Service.kind, service, namespace), snapshot
    )


def _is_ready(cidr: ServiceCIDR, snapshot: Snapshot) -> bool:
    """Whether the ServiceCIDR exists and has condition Ready=True."""
    current = snapshot.get(snapshot.local, ServiceCIDR, cidr.metadata.name)
    if current is None:
        return False
    ready = [c for c in current.status.conditions if c.type == "Ready"]
    return bool(ready) and ready[0].status == "True"


def _validate(network: Network, snapshot: Snapshot) -> Iterator[str]:
    """Messages for faults of a network: tenant, vpcID, ranges, and overlaps with older ones.

    Also if its tenant does not exist, or the ServiceCIDRs that it needs are not served.
    """
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
    yield from validate_vpc(network, snapshot, include_newer=False)


def desired_from_provider(objects: tuple[Object, ...], snapshot: Snapshot) -> Iterator[Desired]:
    """The provider's objects as desired objects of this cluster."""
    return (Desired(obj, snapshot.local) for obj in objects)


def _observed_phase(
    network: Network, desired: tuple[Desired, ...], snapshot: Snapshot
) -> NetworkPhase:
    """The phase of a network whose provider is ready: Failed after a write that people must mend.

    Pending while ranges (with ipam External) or the address of its DNS are missing; else Ready.
    """
    for item in desired:
        outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(item.where, object_ref(item.object)))
        if outcome is not None and outcome.is_final:
            return NetworkPhase("Failed", outcome.result, outcome.message)
    if ipam_mode(network) == "External" and not network.service_cidrs:
        return NetworkPhase(
            "Pending",
            "WaitingForRanges",
            f"waiting for provider {network.spec.type} to name the ranges of its Services "
            "(--network-provider), or for spec.service.cidrs",
        )
    if ipam_mode(network) == "External" and not network.status.dns_service_ip:
        return NetworkPhase(
            "Pending", "WaitingForAddress", "waiting for the provider to set status.dnsServiceIP"
        )
    if not dns_cluster_ip(network, snapshot):
        message = "waiting for the address of the network's DNS"
        return NetworkPhase("Pending", "WaitingForAddress", message)
    return NetworkPhase("Ready", "Ready")


def dns_cluster_ip(network: Network, snapshot: Snapshot) -> str:
    """The cluster IP of a network's DNS Service; empty until it exists and is ours."""
    name = parse_network_name(network.metadata.name)
    service = snapshot.get(snapshot.local, Service, name.kube_dns, name.dns_namespace)
    return (
        service.spec.cluster_ip
        if service is not None and is_managed(service.metadata.labels)
        else ""
    )


def _status_plan(
    network: Network,
    state: NetworkPhase,
    isolated: tuple[Condition, ...],
    desired: tuple[Desired, ...],
    snapshot: Snapshot,
) -> Plan:
    """The plan with the desired objects, the status patch and Events of Ready.

    Ready is True in phase Ready alone. The status also has the address of the DNS, and with ipam
    External the ranges as given. Requeued after 5 seconds while the phase is Unknown.
    """
    ref = ClusterObjectRef(snapshot.local, object_ref(network))
    ready = condition("Ready", state.phase == "Ready", state.reason, state.message)
    status: Wire = {
        "phase": state.phase,
        "message": state.message or None,
        "conditions": merged_conditions(network, [ready, *isolated], snapshot),
    }
    if ipam_mode(network) == "External":
        said = network.status
        status["serviceCIDRs"] = list(said.service_cidrs) or None
        if said.dns_service_ip:
            status["dnsServiceIP"] = said.dns_service_ip
    else:
        status["dnsServiceIP"] = dns_cluster_ip(network, snapshot) or None
    events = tuple(condition_events(ref, network.status.conditions, [ready]))
    again = timedelta(seconds=5) if state.phase == "Unknown" else None
    patch = Patch(ref, {"status": status}, "status")
    return Plan(desired, patches=(patch,), events=events, requeue_after=again)


def _add_finalizer(network: Network, snapshot: Snapshot) -> Plan:
    """A plan that only adds the finalizer, before anything is provisioned."""
    finalizers = [*network.metadata.finalizers, FINALIZER]
    patch = Patch(
        ClusterObjectRef(snapshot.local, object_ref(network)),
        {"metadata": {"finalizers": finalizers}},
    )
    return Plan(patches=(patch,))


def merged_conditions(network: Network, conditions: list[Condition], snapshot: Snapshot) -> object:
    """The network's conditions with these merged in, as wire values."""
    after = merge_conditions(
        network.status.conditions, conditions, snapshot.now, network.metadata.generation
    )
    return msgspec.to_builtins(after)
