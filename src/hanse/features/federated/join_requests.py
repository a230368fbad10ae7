"""What a Service or native service asks for by annotations: federated Services to join."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from hanse.features.federated.names import FEDERATED, GLOBAL, NAMESPACED
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import SYSTEM, NativeService, spelled, spelled_label
from hanse.model.naming import is_service_name
from hanse.model.snapshot import Index

Joinable: TypeAlias = Service | NativeService


class FederatedName(Struct, frozen=True, order=True):
    """A federated Service, by the name that it has in every member."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class JoinRequest(Struct, frozen=True):
    """What an object asks for: federated Services to join, and names that cannot be."""

    joins: tuple[FederatedName, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.joins or self.faults)


def join_request(obj: Joinable) -> JoinRequest:
    """What an object asks for; what we generate ourselves joins nothing."""
    marks = obj.metadata.annotations
    if FEDERATED in marks:
        return JoinRequest()
    joins: dict[FederatedName, None] = {}
    faults: list[str] = []
    for mark, namespace in ((GLOBAL, SYSTEM), (NAMESPACED, obj.metadata.namespace)):
        name = spelled(marks, mark)
        if name is None:
            continue
        if is_service_name(name):
            joins[FederatedName(namespace, name)] = None
        else:
            faults.append(
                f"annotation {spelled_label(marks, mark)}: {name[:63]!r} cannot be the name of a "
                "Service: use up to 63 small letters, digits and dashes, beginning with a letter"
            )
    return JoinRequest(tuple(joins), tuple(faults))


def _joining(obj: Any) -> Iterator[str]:
    if join_request(obj).any:
        yield ""
        if isinstance(obj, Service):
            yield obj.spec.type


def _interface(native: NativeService) -> Iterator[str]:
    yield f"{native.metadata.namespace}/{native.spec.network_interface}"


JOINING_SERVICES = Index(Service, "federated-joining", _joining)
"""Services that ask to join, all under the empty value and again by their type."""
NATIVE_SERVICES = Index(NativeService, "federated-native", _interface)
"""Native services by the interface they listen on."""
