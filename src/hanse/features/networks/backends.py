"""Services of networks that no proxy on the nodes serves: their provider is told the backends."""

from typing import Protocol, runtime_checkable

from msgspec import Struct

from hanse.features.networks.addresses import address_in
from hanse.features.networks.providers import Provider
from hanse.features.networks.sight import SLICES
from hanse.model.kinds.core import Service
from hanse.model.kinds.networks import Network
from hanse.model.objects import Object
from hanse.model.plan import Desired, Plan
from hanse.model.snapshot import Snapshot


class Backend(Struct, frozen=True, order=True):
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
        self, service: Service, backends: tuple[Backend, ...], network: Network
    ) -> tuple[Object, ...]:
        """What makes a Service's address lead to its backends; without it that is undone."""
        ...


def plan_service(
    service: Service | None, network: Network | None, provider: Provider, snapshot: Snapshot
) -> Plan:
    """A Service for as long as it has an address and its network is there."""
    if service is None or network is None or not isinstance(provider, ServiceProvider):
        return Plan()
    if address_in(service.spec.cluster_ip) is None:
        return Plan()
    objects = provider.service(service, backends_of(service, snapshot), network)
    return Plan(tuple(Desired(obj, snapshot.local) for obj in objects))


def backends_of(service: Service, snapshot: Snapshot) -> tuple[Backend, ...]:
    """The ready endpoints of each port, from all slices of a Service."""
    place = f"{service.metadata.namespace}/{service.metadata.name}"
    pieces = sorted(snapshot.by(snapshot.local, SLICES, place), key=lambda s: s.metadata.name)
    found: list[Backend] = []
    for port in service.spec.ports:
        targets: dict[int, set[str]] = {}
        for piece in pieces:
            for served in piece.ports or ():
                if (served.name, served.protocol) == (port.name, port.protocol) and served.port:
                    ready = (e.addresses[0] for e in piece.endpoints or () if e.ready)
                    targets.setdefault(served.port, set()).update(ready)
        for target, addresses in sorted(targets.items()):
            told = tuple(sorted(addresses))
            found.append(Backend(port.name, port.protocol, port.port, target, told))
    return tuple(found)
