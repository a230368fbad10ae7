"""Options of global load balancing."""

from typing import Literal

from msgspec import Struct

Provider = Literal["dns", "externaldns", "avi"]


class GslbOptions(Struct, frozen=True):
    """The providers that publish global host names."""

    providers: tuple[Provider, ...] = ("dns",)
    withdraw: tuple[Provider, ...] = ()
    """Providers whose records are deleted; records of an unused provider stay otherwise."""
    weighted_records: bool = False
    """Whether ExternalDNS gets a weighted record per member, as for Route 53."""
    zones: tuple[str, ...] = ()
    """The zones that name servers answer, if known: hosts outside of them are told."""
    loopback: bool = False
    """Whether members on loopback are probed, in a federation on one machine."""

    @property
    def probes(self) -> bool:
        """Whether Hanse probes members itself, so that it needs valid monitors in ConfigMaps.

        It does with provider dns or externaldns.
        """
        return bool({"dns", "externaldns"} & set(self.providers))
