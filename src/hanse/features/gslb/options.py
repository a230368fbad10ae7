"""What an installation chooses for global load balancing."""

from typing import Literal

from msgspec import Struct

Provider = Literal["dns", "externaldns", "avi"]


class GslbOptions(Struct, frozen=True):
    """Who answers global host names, and by what."""

    providers: tuple[Provider, ...] = ("dns",)
    withdraw: tuple[Provider, ...] = ()
    """Providers that are no longer used and whose records are to go: until told, they stay."""
    weighted_records: bool = False
    """Whether ExternalDNS gets a record per member with its weight, as Route 53 takes them."""
    zones: tuple[str, ...] = ()
    """The zones whose global host names our DNS server answers."""
    regions: tuple[tuple[str, str], ...] = ()
    """Ranges of clients' addresses, and the cluster that is near to them."""
    resolvers: tuple[str, ...] = ()
    """Ranges of the resolvers whose word about their clients' addresses is taken."""
    loopback: bool = False
    """Whether members on loopback are watched: in a federation on one machine alone."""
