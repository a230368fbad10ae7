"""The contract of everything that has names: which zones, what wakes which names, and the names."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from hanse.model.dns.records import TTL, ZoneNode
from hanse.model.kinds.hanse import Profile
from hanse.model.naming import ZONE
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Change, Snapshot, Watch


class View(Struct, frozen=True):
    """From where names are looked at."""

    name: str
    local: ClusterId = ""
    """The cluster whose clients ask; none where nobody's are."""
    zone: str = ZONE
    local_first: bool = True
    cluster_names: bool | None = None
    """Whether `<cluster>.<service>` is answered; None: as the profile has it."""
    profile: Profile | None = None
    """Whose rules to follow; None: as the fleet's ClusterSet says."""
    ttl: int = TTL
    secondaries: tuple[str, ...] = ()
    """The networks that the zones may be transferred to; without any, to nobody."""
    servers: tuple[str, ...] = ()
    """The addresses of the name server, for those who follow NS records."""
    global_zones: tuple[str, ...] = ()
    """The zones whose global host names are answered."""
    regions: tuple[tuple[str, str], ...] = ()
    """Ranges of clients' addresses, and the cluster that is near to them."""
    resolvers: tuple[str, ...] = ()
    """Ranges of the resolvers whose word about their clients' addresses is taken."""


class ZoneSource(Protocol):
    """A feature's names. Everything is pure: what is asked for depends on the snapshot alone.

    Names come in keys, as decisions do: a change wakes keys, and a key's names are told anew as a
    whole. Where two sources tell the same name, the first of them is heard.
    """

    name: str
    watches: tuple[Watch, ...]
    zones: tuple[bytes, ...]
    """The zones that are ours to answer; a name below none of them is refused."""

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether an absent name does not exist, rather than not being known yet."""
        ...

    def keys(self, snapshot: Snapshot) -> Iterable[Key]:
        """Every key that has names now."""
        ...

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys whose names a change may have changed."""
        ...

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode] | None]:
        """Tells all names of a key; what keys have in common is looked up once.

        None where they cannot be read: what was told before stands.
        """
        ...
