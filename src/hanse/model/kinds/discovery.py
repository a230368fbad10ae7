"""The group `discovery.k8s.io`: endpoints in slices."""

from ipaddress import IPv6Address, ip_address
from typing import ClassVar, Literal

from hanse.model.addresses import is_routable
from hanse.model.kinds.core import ObjectReference, Protocol
from hanse.model.objects import Kind, Object, Value

AddressType = Literal["IPv4", "IPv6", "FQDN"]

KUBE_SERVICE = "kubernetes.io/service-name"
"""Label of a slice: the Service that it is of."""
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
"""Label of a slice: its controller."""


def address_family(text: str) -> AddressType | None:
    """IPv4 or IPv6 for an address that API servers take in a slice; None for anything else.

    Not taken are loopback, link-local, multicast, unspecified and IPv4-mapped addresses, and those
    with a scope id: one of them would keep all other endpoints out of the slice.
    """
    if not is_routable(text):
        return None
    address = ip_address(text)
    if not isinstance(address, IPv6Address):
        return "IPv4"
    return None if address.ipv4_mapped is not None or address.scope_id else "IPv6"


class EndpointConditions(Value, frozen=True, kw_only=True):
    """The conditions of an endpoint; None where not set."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForZone(Value, frozen=True, kw_only=True):
    """A zone that should use an endpoint."""

    name: str


class ForNode(Value, frozen=True, kw_only=True):
    """A node that should use an endpoint."""

    name: str


class EndpointHints(Value, frozen=True, kw_only=True):
    """The zones and nodes that should use an endpoint."""

    for_zones: tuple[ForZone, ...] = ()
    for_nodes: tuple[ForNode, ...] = ()


class Endpoint(Value, frozen=True, kw_only=True):
    """One backend, reached at any of its addresses."""

    addresses: tuple[str, ...]
    conditions: EndpointConditions = EndpointConditions()
    hostname: str = ""
    target_ref: ObjectReference | None = None
    node_name: str = ""
    zone: str = ""
    hints: EndpointHints | None = None

    @property
    def ready(self) -> bool:
        """Whether it may receive traffic; not set counts as ready, as in the API."""
        return self.conditions.ready is not False

    @property
    def serving(self) -> bool:
        """Whether it serves, terminating or not; not set is as `ready`."""
        serving = self.conditions.serving
        return self.ready if serving is None else serving

    @property
    def terminating(self) -> bool:
        """Whether it is terminating; not set counts as not."""
        return self.conditions.terminating is True


class EndpointPort(Value, frozen=True, kw_only=True):
    """One port that all endpoints of a slice serve; no number means any port."""

    port: int | None = None
    name: str = ""
    protocol: Protocol = "TCP"
    app_protocol: str = ""


class EndpointSlice(Object, frozen=True, kw_only=True):
    """A part of a Service's endpoints, of one address family.

    Real servers send null for empty lists here; read `endpoints or ()`.
    """

    kind: ClassVar[Kind] = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")

    address_type: AddressType
    endpoints: tuple[Endpoint, ...] | None = ()
    ports: tuple[EndpointPort, ...] | None = ()
