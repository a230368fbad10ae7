"""The two ends of a connection, and its port."""

from msgspec import Struct

from hanse.model.kinds.core import Protocol


class TrafficEndpoint(Struct, frozen=True):
    """One end of a connection: a pod, or without a namespace an external address."""

    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    namespace_labels: dict[str, str] = {}
    addresses: tuple[str, ...] = ()
    ports: dict[tuple[str, str], int] = {}
    """Named ports by name and protocol."""

    @property
    def is_pod(self) -> bool:
        """Whether it has a namespace."""
        return bool(self.namespace)


class TrafficPort(Struct, frozen=True):
    """The destination port and protocol of a connection."""

    port: int
    protocol: Protocol = "TCP"
