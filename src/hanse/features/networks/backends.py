"""Services whose load balancing the network's provider does instead of kube-proxy."""

from typing import Protocol, runtime_checkable

from msgspec import Struct

from hanse.features.networks.addresses import parse_address
from hanse.features.networks.lookups import SLICES_BY_SERVICE
from hanse.features.networks.providers import Provider
from hanse.model.kinds.core import Service
from hanse.model.kinds.networks import Network
from hanse.model.objects import Object
from hanse.model.plan import Desired, Plan
from hanse.model.snapshot import Snapshot


class PortBackends(Struct, frozen=True, order=True):
    """One port of a Service with its ready endpoint addresses."""

    name: str
    protocol: str
    port: int
    target: int
    addresses: tuple[str, ...]


@runtime_checkable
class ServiceProvider(Protocol):
    """A provider that load-balances Services in its networks."""

    def service(
        self,
        service: Service,
        backends: tuple[PortBackends, ...],
        network: Network,
        snapshot: Snapshot,
    ) -> tuple[Object, ...]:
        """The desired objects that load-balance a Service over its ready backends.

        Nothing is written here.
        """
        ...


def plan_service(
    service: Service | None, network: Network | None, provider: Provider, snapshot: Snapshot
) -> Plan:
    """The plan with the provider's objects for a Service with a cluster IP in a network.

    Empty if Service or network is None, the Service is headless or has no cluster IP yet, or the
    provider does not load-balance Services.
    """
    if service is None or network is None or not isinstance(provider, ServiceProvider):
        return Plan()
    if parse_address(service.spec.cluster_ip) is None:
        return Plan()
    objects = provider.service(service, port_backends(service, snapshot), network, snapshot)
    return Plan(tuple(Desired(obj, snapshot.local) for obj in objects))


def port_backends(service: Service, snapshot: Snapshot) -> tuple[PortBackends, ...]:
    """The ready addresses by port and target port, over all EndpointSlices of a Service.

    In the order of the Service's ports, then by target; addresses are sorted as text. Of each
    endpoint only the first address counts. A port that no slice has is left out; one without ready
    endpoints has no addresses.
    """
    service_key = f"{service.metadata.namespace}/{service.metadata.name}"
    slices = sorted(
        snapshot.by(snapshot.local, SLICES_BY_SERVICE, service_key), key=lambda s: s.metadata.name
    )
    found: list[PortBackends] = []
    for port in service.spec.ports:
        targets: dict[int, set[str]] = {}
        for endpoint_slice in slices:
            for served in endpoint_slice.ports or ():
                if (served.name, served.protocol) == (port.name, port.protocol) and served.port:
                    endpoints = [e.addresses[0] for e in endpoint_slice.endpoints or () if e.ready]
                    targets.setdefault(served.port, set()).update(endpoints)
        for target, addresses in sorted(targets.items()):
            ready = tuple(sorted(addresses))
            found.append(PortBackends(port.name, port.protocol, port.port, target, ready))
    return tuple(found)
