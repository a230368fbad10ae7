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
    loopback: bool = False
    """Whether members on loopback are watched: in a federation on one machine alone."""

    @property
    def probes(self) -> bool:
        """Whether monitors are ours to run, and their names those of ConfigMaps."""
        return "dns" in self.providers
