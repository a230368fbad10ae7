"""What is wrong with a network as somebody writes it: each with the field and the remedy."""

from collections.abc import Iterator

from hanse.features.networks.lookups import ipam_mode
from hanse.features.networks.names import parse_network_name
from hanse.features.networks.ranges import validate_ranges
from hanse.model.kinds.networks import Network
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot

_IMMUTABLE = ("type", "tenant")


def validate_network(network: Network, before: Wire, snapshot: Snapshot) -> Iterator[str]:
    """Everything that keeps a network from ever being Ready."""
    name = parse_network_name(network.metadata.name)
    for field in _IMMUTABLE:
        if before and before.get(field) != getattr(network.spec, field):
            yield f"spec.{field}: it cannot be changed; create another network"
    if not network.spec.type:
        yield "spec.type: it is needed; flat, vpc or a provider's name"
    if not name.network or network.spec.tenant != name.tenant:
        yield (
            f"spec.tenant: {network.spec.tenant!r} does not agree with the name "
            f"{network.metadata.name}; name it <tenant>.<network>, such as acme.default"
        )
    if network.spec.type == "vpc" and not network.spec.vpc_id:
        yield "spec.vpcID: it is needed for type vpc; set it"
    if ipam_mode(network) == "Arktos" and not network.spec.service.cidrs:
        yield "spec.service.cidrs: ipam Arktos needs at least one range; add one"
    yield from validate_ranges(network, snapshot)
