"""What people do in the clusters of a assembly."""

from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from hanse.model.objects import ClusterId, Meta
from tests.features.federated.builders import GLOBAL_MARK, SHOP
from tests.support.supervised_world import SupervisedWorld


def pods(name: str, *addresses: str, port: int = 8080) -> EndpointSlice:
    """The slice of the ready pods behind a Service."""
    return EndpointSlice(
        metadata=Meta(
            name=f"{name}-pods", namespace=SHOP, labels={"kubernetes.io/service-name": name}
        ),
        address_type="IPv4",
        endpoints=tuple(
            Endpoint(addresses=(a,), conditions=EndpointConditions(ready=True)) for a in addresses
        ),
        ports=(EndpointPort(port=port, name="http"),),
    )


async def join(
    world: SupervisedWorld, where: ClusterId, *addresses: str, of: str = "web", port: int = 80
) -> None:
    """Make a Service with these pods that joins a global federated Service."""
    name = f"{of}-{where}"
    marks = {GLOBAL_MARK: of}
    await world.admin(where).create(
        Service(
            metadata=Meta(name=name, namespace=SHOP, annotations=marks),
            spec=ServiceSpec(ports=(ServicePort(port=port, name="http"),)),
        )
    )
    await world.admin(where).create(pods(name, *addresses))
