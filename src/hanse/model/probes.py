"""Health probes: targets, thresholds, results, and the features that need them."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from hanse.model.facts import Fact
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Change, Index, Snapshot


class ProbeDetails(Struct, frozen=True, order=True):
    """What a probe sends and expects, where it is not the usual."""

    method: str = ""
    """Of HTTP; empty: HEAD."""
    headers: str = ""
    """More headers of HTTP, one in a line."""
    codes: str = ""
    """Good status codes of HTTP, as in `200,3xx`; empty: 2xx and 3xx."""
    server_name: str = ""
    """The name for TLS; empty: the host."""
    service: str = ""
    """What is asked about by gRPC; empty: the whole server."""
    request: bytes = b""
    response: bytes = b""
    """What is sent by UDP, and what an answer has to contain."""


NO_DETAILS = ProbeDetails()


class ProbeTarget(Struct, frozen=True, order=True):
    """The target of a probe: a connection or datagram, and a request over it."""

    type: Literal["TCP", "TLS", "UDP", "HTTP", "HTTPS", "GRPC", "GRPCS"]
    address: str
    port: int
    host: str = ""
    path: str = ""
    details: ProbeDetails | None = None

    def __str__(self) -> str:
        """`TYPE address:port/path`, an IPv6 address in brackets."""
        where = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.type} {where}:{self.port}{self.path}"


class ProbePolicy(Struct, frozen=True):
    """The interval, timeout, and success and failure thresholds of a probe."""

    interval: timedelta = timedelta(seconds=10)
    timeout: timedelta = timedelta(seconds=4)
    up: int = 3
    down: int = 3


class Probe(Struct, frozen=True):
    """One target and its policy."""

    target: ProbeTarget
    rule: ProbePolicy = ProbePolicy()


class TargetHealth(Fact, frozen=True):
    """The health of a target; there is none before a threshold was reached."""

    target: ProbeTarget
    up: bool
    since: datetime
    reason: str = ""
    was_up: bool = False
    """Whether it was up before it went down; `since` then says until when."""

    @property
    def key(self) -> ProbeTarget:
        """The target."""
        return self.target


def api_server_addresses(
    clusters: Iterable[ClusterId],
    by_service: Index[EndpointSlice],
    snapshot: Snapshot,
    others: Iterable[str] = (),
) -> frozenset[str]:
    """The addresses of Service and slices `default/kubernetes` in clusters, and `others`.

    Loopback addresses are left out: in a federation on one machine everything is there. An empty
    text may be among them.
    """
    addresses = set(others)
    for where in clusters:
        api = snapshot.get(where, Service, "kubernetes", "default")
        if api is not None:
            addresses.update((api.spec.cluster_ip, *api.spec.cluster_ips))
        for endpoint_slice in snapshot.by(where, by_service, "default/kubernetes"):
            addresses.update(a for e in endpoint_slice.endpoints or () for a in e.addresses)
    return frozenset(a for a in addresses if not a.startswith("127.") and a != "::1")


@runtime_checkable
class ProbeSource(Protocol):
    """A source of probes by key: a change requeues keys, and each key has its probes."""

    @property
    def name(self) -> str: ...

    def probe_keys(self, snapshot: Snapshot) -> Iterable[Key]:
        """Every key that has probes now."""
        ...

    def probe_keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys whose probes may differ after a change."""
        ...

    def probes(self, key: Key, snapshot: Snapshot) -> Sequence[Probe]:
        """All probes of a key."""
        ...

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:
        """Addresses that must not be probed: those of API servers."""
        ...
