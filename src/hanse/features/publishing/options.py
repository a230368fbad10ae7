"""Where names are published to, as an installation chooses."""

from msgspec import Struct

from hanse.model.dns.records import TTL
from hanse.model.objects import ClusterId

NAME_SERVER: ClusterId = "name-server"
"""What the name server is called among the systems that an agent writes."""


class ServerOptions(Struct, frozen=True):
    """A name server that takes updates (RFC 2136) and lets the zone be transferred to us."""

    host: str
    port: int = 53
    key_file: str = ""
    """A file with the TSIG key; without one, messages are not signed."""


class PublishingOptions(Struct, frozen=True):
    """Nothing is published unless a zone and somewhere to publish it are named."""

    zone: str = ""
    """The zone on the other side; names of services stand below it as below clusterset.local."""
    endpoints_in: str = ""
    """The namespace for DNSEndpoint objects, which ExternalDNS reads."""
    server: ServerOptions | None = None
    ttl: int = TTL
    weighted: bool = False
    """Whether DNSEndpoints have a record set for each turn, with its weight, as Route 53 takes."""

    @property
    def wanted(self) -> bool:
        return bool(self.zone and (self.endpoints_in or self.server))
