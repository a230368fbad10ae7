"""The contract between features and the DNS server: views, and sources of zone data."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hanse.model.dns.records import TTL, ZoneNode
from hanse.model.kinds.hanse import Profile
from hanse.model.naming import ZONE
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Change, Snapshot, Watch


class View(Struct, frozen=True):
    """A set of clients that get the same answers, and the settings of their answers."""

    name: str
    local: ClusterId = ""
    """The cluster of the clients; empty if they belong to no cluster."""
    zone: str = ZONE
    local_first: bool = True
    cluster_names: bool | None = None
    """Whether `<cluster>.<service>` names exist; None: as the profile says."""
    profile: Profile | None = None
    """The profile to follow; None: the one of the ClusterSet."""
    ttl: int = TTL
    secondaries: tuple[str, ...] = ()
    """CIDRs of secondaries that may transfer the zones; without any, transfers are refused."""
    servers: tuple[str, ...] = ()
    """The addresses of the name server, for resolvers that follow NS records."""
    global_zones: tuple[str, ...] = ()
    """The zones of global host names."""
    regions: tuple[tuple[str, str], ...] = ()
    """Client CIDRs, each with the cluster that is near to them."""
    resolvers: tuple[str, ...] = ()
    """CIDRs of resolvers whose EDNS client subnet (RFC 7871) is trusted."""


class ZoneSource(Protocol):
    """The zone data of one feature, as a pure function of the snapshot.

    Names are grouped by key, as plans are: a change enqueues keys, and all names of a key are
    built again. If two sources have the same name, the first source wins.
    """

    name: str
    watches: tuple[Watch, ...]
    zones: tuple[bytes, ...]
    """The zones that the server is authoritative for; other names are refused."""

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether all objects were listed, so that an absent name is NXDOMAIN."""
        ...

    def keys(self, snapshot: Snapshot) -> Iterable[Key]:
        """All keys that have names now."""
        ...

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys whose names may have changed."""
        ...

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode] | None]:
        """A function that builds all nodes of a key; shared lookups are done once per call.

        It returns None if the objects cannot be read: the nodes built before stay.
        """
        ...


@runtime_checkable
class KnownZoneSource(Protocol):
    """A source whose known names are answered also while other names are not known yet."""

    @property
    def answers_known(self) -> bool:
        """Whether known names are answered before all are listed."""
        ...

    @property
    def zones(self) -> tuple[bytes, ...]:
        """The zones that it answers, in wire format."""
        ...
