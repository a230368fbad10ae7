"""The end of a network: it waits until it is unused, and leaves nothing behind."""

from collections.abc import Iterator
from datetime import timedelta

from hanse.features.networks.addresses import is_in_ranges, parse_address, service_ranges
from hanse.features.networks.external_ipam import plan_return
from hanse.features.networks.lifecycle import (
    desired_from_provider,
    desired_objects,
    merged_conditions,
)
from hanse.features.networks.lookups import (
    DRAINED,
    PODS_BY_NETWORK,
    SERVICES_BY_NETWORK,
    is_drained,
    is_in_tenant,
    summarize_objects,
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
from hanse.features.networks.providers import Provider
from hanse.model.conditions import Condition, condition
from hanse.model.kinds.core import Service
from hanse.model.kinds.networking import IPAddress, ServiceCIDR
from hanse.model.kinds.networks import Network
from hanse.model.objects import ClusterObjectRef, Object, Wire, object_ref
from hanse.model.plan import Patch, Plan
from hanse.model.snapshot import Snapshot


def network_consumers(name: NetworkName, snapshot: Snapshot) -> list[Object]:
    """Pods and Services of users in a network, by their labels and their namespace's tenant.

    Without the network's DNS pods, and Services of ours.
    """
    pods = [
        p
        for p in snapshot.by(snapshot.local, PODS_BY_NETWORK, str(name))
        if DNS not in p.metadata.labels and is_in_tenant(p, name, snapshot)
    ]
    services = [
        s
        for s in snapshot.by(snapshot.local, SERVICES_BY_NETWORK, str(name))
        if not is_managed(s.metadata.labels) and is_in_tenant(s, name, snapshot)
    ]
    return [*pods, *services]


def finalize_network(
    network: Network, snapshot: Snapshot, options: NetworksOptions, provider: Provider
) -> Plan:
    """Wait until the network is unused, delete its objects, then remove the finalizer.

    While users' pods or Services remain its objects stay; once none did, later ones do not count.
    The status says what is waited for. The finalizer goes when all objects are gone, also at the
    provider, which has taken its addresses back. An empty plan without our finalizer.
    """
    if FINALIZER not in network.metadata.finalizers:
        return Plan()
    users = network_consumers(parse_network_name(network.metadata.name), snapshot)
    if users and not is_drained(network):
        message = f"waiting for {summarize_objects(users)} to be deleted"
        desired = (
            *desired_from_provider(provider.provision(network, snapshot).objects, snapshot),
            *desired_objects(network, snapshot, options),
        )
        drained = condition(DRAINED, False, "InUse", message)
        return Plan(desired, patches=(_terminating_patch(network, message, drained, snapshot),))
    remaining = list(_remaining_objects(network, snapshot))
    provision = provider.deprovision(network, snapshot)
    waiting, questions = plan_return(network, snapshot, options)
    if is_drained(network) and not remaining and provision.gone and not waiting:
        finalizers = [f for f in network.metadata.finalizers if f != FINALIZER]
        ref = ClusterObjectRef(snapshot.local, object_ref(network))
        return Plan(patches=(Patch(ref, {"metadata": {"finalizers": finalizers or None}}),))
    message = (
        _removal_message(network, remaining, snapshot)
        if remaining
        else waiting or provision.message
    )
    drained = condition(DRAINED, True, "Unused")
    return Plan(
        tuple(desired_from_provider(provision.objects, snapshot)),
        patches=(_terminating_patch(network, message, drained, snapshot),),
        questions=questions,
        requeue_after=timedelta(seconds=2) if questions else None,
    )


def _removal_message(network: Network, remaining: list[Object], snapshot: Snapshot) -> str:
    """The message about remaining objects of a network that is being removed.

    If only ServiceCIDRs are left, also which Services outside of the network have addresses in
    them, if any.
    """
    message = f"removing {summarize_objects(remaining)}"
    if not all(isinstance(item, ServiceCIDR) for item in remaining):
        return message
    network_services = set(
        map(object_ref, snapshot.by(snapshot.local, SERVICES_BY_NETWORK, network.metadata.name))
    )
    ranges = service_ranges(network)
    holders = [
        service
        for address in snapshot.all(snapshot.local, IPAddress)
        if (at := parse_address(address.metadata.name)) is not None and is_in_ranges(at, ranges)
        if (by := address.spec.parent_ref) is not None
        if (service := snapshot.get(snapshot.local, Service, by.name, by.namespace)) is not None
        if object_ref(service) not in network_services
    ]
    return (
        f"{message}; delete {summarize_objects(holders)}, whose addresses are in it"
        if holders
        else message
    )


def _remaining_objects(network: Network, snapshot: Snapshot) -> Iterator[Object]:
    """The network's own Services, DNS pods and ServiceCIDRs that still exist, in this order."""
    name = parse_network_name(network.metadata.name)
    for service in snapshot.by(snapshot.local, SERVICES_BY_NETWORK, str(name)):
        if is_managed(service.metadata.labels) and is_in_tenant(service, name, snapshot):
            yield service
    for pod in snapshot.by(snapshot.local, PODS_BY_NETWORK, str(name)):
        if DNS in pod.metadata.labels and is_in_tenant(pod, name, snapshot):
            yield pod
    for cidr in snapshot.all(snapshot.local, ServiceCIDR):
        if cidr.metadata.labels.get(RANGE_OF) == shorten_name(str(name)):
            yield cidr


def _terminating_patch(
    network: Network, message: str, drained: Condition, snapshot: Snapshot
) -> Patch:
    """The status patch of a network that ends: phase Terminating, conditions Ready and Drained.

    Ready is False with the message; `drained` is the latter condition.
    """
    ready = condition("Ready", False, "Terminating", message)
    status: Wire = {
        "phase": "Terminating",
        "message": message or None,
        "conditions": merged_conditions(network, [ready, drained], snapshot),
    }
    return Patch(
        ClusterObjectRef(snapshot.local, object_ref(network)), {"status": status}, "status"
    )
