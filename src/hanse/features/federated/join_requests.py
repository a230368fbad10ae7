"""The annotations by which Services and native services join federated Services."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from hanse.features.federated.names import FEDERATED, GLOBAL, NAMESPACED
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import SYSTEM, NativeService, spelled_label, spelled_value
from hanse.model.naming import is_service_name
from hanse.model.snapshot import Index

Joinable: TypeAlias = Service | NativeService


class FederatedName(Struct, frozen=True, order=True):
    """Namespace and name of a federated Service, the same in every member."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class JoinRequest(Struct, frozen=True):
    """The federated Services that an object joins, and what is wrong with its annotations."""

    joins: tuple[FederatedName, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether the object has a join annotation, valid or not."""
        return bool(self.joins or self.faults)


def join_request(obj: Joinable) -> JoinRequest:
    """The request in an object's annotations for a global name and for one of its own namespace.

    Invalid names are faults. Objects with annotation `FEDERATED` join nothing.
    """
    annotations = obj.metadata.annotations
    if FEDERATED in annotations:
        return JoinRequest()
    joins: dict[FederatedName, None] = {}
    faults: list[str] = []
    for mark, namespace in ((GLOBAL, SYSTEM), (NAMESPACED, obj.metadata.namespace)):
        name = spelled_value(annotations, mark)
        if name is None:
            continue
        if is_service_name(name):
            joins[FederatedName(namespace, name)] = None
        else:
            faults.append(
                f"annotation {spelled_label(annotations, mark)}: {name[:63]!r} cannot be the name "
                "of a Service: use up to 63 small letters, digits and dashes, beginning with a "
                "letter"
            )
    return JoinRequest(tuple(joins), tuple(faults))


def is_reached_outside(service: Service) -> bool:
    """Whether other clusters reach a Service by nodes, a load balancer or external IPs.

    Otherwise they reach its pods.
    """
    return service.spec.type in ("NodePort", "LoadBalancer") or bool(service.spec.external_ips)


def _joining_values(obj: Any) -> Iterator[str]:
    """Index values of an object with a join annotation, valid or not: the empty text.

    Also BY_NODES if it is a Service that is reached by nodes, a load balancer or external IPs.
    """
    if join_request(obj).any:
        yield ""
        if isinstance(obj, Service) and is_reached_outside(obj):
            yield BY_NODES


def _native_interface(native: NativeService) -> Iterator[str]:
    """Index value: `namespace/name` of the NetworkInterface of a native service."""
    yield f"{native.metadata.namespace}/{native.spec.network_interface}"


BY_NODES = "nodes"
JOINING_SERVICES = Index(Service, "federated-joining", _joining_values)
"""Services that join, all under the empty value, and under BY_NODES if records name their nodes."""
NATIVE_SERVICES = Index(NativeService, "federated-native", _native_interface)
"""Native services by the interface they listen on."""
