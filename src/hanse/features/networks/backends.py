"""Services of networks that no proxy on the nodes serves: their provider is told the backends."""

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
    """One port of a Service, and where it leads."""

    name: str
    protocol: str
    port: int
    target: int
    addresses: tuple[str, ...]


@runtime_checkable
class ServiceProvider(Protocol):
    """A provider that serves Services within its networks."""

    def service(
        self, service: Service, backends: tuple[PortBackends, ...], network: Network
    ) -> tuple[Object, ...]:
        """What makes a Service's address lead to its backends; without it that is undone."""
        ...


def plan_service(
    service: Service | None, network: Network | None, provider: Provider, snapshot: Snapshot
) -> Plan:
    """A Service for as long as it has an address and its network is there."""
    if service is None or network is None or not isinstance(provider, ServiceProvider):
        return Plan()
    if parse_address(service.spec.cluster_ip) is None:
        return Plan()
    objects = provider.service(service, port_backends(service, snapshot), network)
    return Plan(tuple(Desired(obj, snapshot.local) for obj in objects))


def port_backends(service: Service, snapshot: Snapshot) -> tuple[PortBackends, ...]:
    """The ready endpoints of each port, from all slices of a Service."""
    place = f"{service.metadata.namespace}/{service.metadata.name}"
    pieces = sorted(
        snapshot.by(snapshot.local, SLICES_BY_SERVICE, place), key=lambda s: s.metadata.name
    )
    found: list[PortBackends] = []
    for port in service.spec.ports:
        targets: dict[int, set[str]] = {}
        for piece in pieces:
            for served in piece.ports or ():
                if (served.name, served.protocol) == (port.name, port.protocol) and served.port:
                    ready = (e.addresses[0] for e in piece.endpoints or () if e.ready)
                    targets.setdefault(served.port, set()).update(ready)
        for target, addresses in sorted(targets.items()):
            told = tuple(sorted(addresses))
            found.append(PortBackends(port.name, port.protocol, port.port, target, told))
    return tuple(found)
