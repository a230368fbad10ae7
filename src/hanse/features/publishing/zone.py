"""The zone of DNSEndpoints, served directly where no ExternalDNS publishes them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from hanse.model.dns.names import is_subdomain, parse_name, wire_name
from hanse.model.dns.records import RRset, ZoneNode, address_rdata, cname_rrsets
from hanse.model.dns.service_records import address_rrsets
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.externaldns import DNSEndpoint, DNSRecord
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, ObjectChange, Snapshot, Watch

NAME = "outside"
ENDPOINTS_BY_NAME = Index(
    DNSEndpoint, "dns-outside", lambda e: {r.dns_name.lower() for r in e.spec.endpoints}
)


class DnsEndpointZone:
    """The names of a cluster's DNSEndpoints below one zone."""

    name = NAME
    watches: tuple[Watch, ...] = (Watch(Role.LOCAL, DNSEndpoint, indexes=(ENDPOINTS_BY_NAME,)),)

    def __init__(self, view: View, zone: str) -> None:
        """The names below `zone`; the view has the TTL of records that have none."""
        self.view = view
        self._apex = wire_name(zone)
        self.zones: tuple[bytes, ...] = (self._apex,)

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether the DNSEndpoints of this cluster are listed.

        Also True if the kind is not served.
        """
        return snapshot.listed_or_unserved(snapshot.local, DNSEndpoint)

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """One key for each distinct name, in lower case, of all DNSEndpoints.

        Also for names outside of the zone, which have no node.
        """
        yield from {
            Key(NAME, record.dns_name.lower())
            for dns_endpoint in snapshot.all(snapshot.local, DNSEndpoint)
            for record in dns_endpoint.spec.endpoints
        }

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The names of a local DNSEndpoint before and after a change, in lower case.

        None for facts, other clusters and other kinds.
        """
        match change:
            case ObjectChange(where, before, after) if where == snapshot.local:
                return {
                    Key(NAME, record.dns_name.lower())
                    for side in (before, after)
                    if isinstance(side, DNSEndpoint)
                    for record in side.spec.endpoints
                }
            case ObjectChange() | FactChange():
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        """A function that builds the node of a name from all DNSEndpoints that have it.

        It returns no node, an empty tuple, for a name outside of the zone or without usable
        records.
        """

        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            """The node of a name from all DNSEndpoints that have it.

            An empty tuple outside of the zone, or without usable records.
            """
            name = self._name_in_zone(key.name)
            records = [
                record
                for dns_endpoint in snapshot.by(snapshot.local, ENDPOINTS_BY_NAME, key.name)
                for record in dns_endpoint.spec.endpoints
                if record.dns_name.lower() == key.name
            ]
            rrsets = tuple(self._rrsets(records))
            return (ZoneNode(name, rrsets),) if name is not None and rrsets else ()

        return build_nodes

    def _name_in_zone(self, text: str) -> bytes | None:
        """Parse a name; None if it is invalid, or neither the zone's apex nor below it."""
        name = parse_name(text)
        return name if name is not None and is_subdomain(name, self._apex) else None

    def _rrsets(self, records: Sequence[DNSRecord]) -> Iterator[RRset]:
        """The RRsets of all valid A and AAAA targets, or else of the first CNAME if it is valid.

        They have the lowest TTL of the records, or the view's if none has one. Other types of
        records are ignored; none at all without a valid target.
        """
        ttl = min((r.record_ttl for r in records if r.record_ttl), default=self.view.ttl)
        targets = [t for r in records if r.record_type in ("A", "AAAA") for t in r.targets]
        rdatas = [rdata for text in targets if (rdata := address_rdata(text)) is not None]
        if rdatas:
            yield from address_rrsets(rdatas, ttl)
            return
        names = [t for r in records if r.record_type == "CNAME" for t in r.targets]
        target = parse_name(names[0]) if names else None
        yield from cname_rrsets(target, ttl) if target is not None else ()
