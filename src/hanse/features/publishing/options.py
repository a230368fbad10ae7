"""The options of publishing: the zone, and where its names are published."""

from msgspec import Struct

from hanse.model.dns.records import TTL
from hanse.model.objects import ClusterId

NAME_SERVER: ClusterId = "name-server"
"""The name of the name server among the external systems of an agent."""


class ServerOptions(Struct, frozen=True):
    """A name server that accepts updates (RFC 2136) and zone transfers."""

    host: str
    port: int = 53
    key_file: str = ""
    """A file with the TSIG key; without it, messages are not signed."""


class PublishingOptions(Struct, frozen=True):
    """Nothing is published unless a zone and a destination are given."""

    zone: str = ""
    """The published zone; service names are below it as below clusterset.local."""
    endpoints_in: str = ""
    """The namespace for DNSEndpoint objects, which ExternalDNS reads."""
    server: ServerOptions | None = None
    ttl: int = TTL
    weighted: bool = False
    """Whether DNSEndpoints have a weighted record set for each variant, as Route 53 takes."""

    @property
    def wanted(self) -> bool:
        """Whether a zone and a destination (DNSEndpoints or a server) are given."""
        return bool(self.zone and (self.endpoints_in or self.server))
