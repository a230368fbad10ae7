"""The feature: publishes the names of zone sources as DNSEndpoints and on a name server."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from hanse.features.publishing.options import NAME_SERVER, PublishingOptions
from hanse.features.publishing.records import (
    dns_endpoint,
    endpoint_records,
    published_names,
    weighted_records,
)
from hanse.features.publishing.status import (
    ENDPOINTS_BY_DNS_NAME,
    SET_WATCHES,
    STATEFULSETS,
    STATUS_KINDS,
    conflicting_keys,
    status_changes,
)
from hanse.model.dns.names import is_subdomain, wire_name
from hanse.model.dns.zones import ZoneSource
from hanse.model.facts import Role
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.names import PublishedName
from hanse.model.plan import Desired, Key, Plan, parse_key
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes


class Publishing:
    """Publishes the names of zone sources; the keys of a source become keys of this feature."""

    name = "publishing"

    def __init__(
        self,
        sources: Sequence[ZoneSource],
        options: PublishingOptions,
        self_published: frozenset[str] = frozenset(),
    ) -> None:
        """Watch what the sources watch, and the kinds that the options publish to.

        Watches of kinds with a `Published` condition also write status. Another feature writes the
        DNSEndpoints of `self_published` sources: they are only published on a name server.
        """
        self._sources = {source.name: source for source in sources}
        self._self_published = self_published
        """Sources whose DNSEndpoints another feature writes: every name has one writer."""
        self._options = options
        self._zone = wire_name(options.zone)
        watches = [
            replace(
                watch,
                writes=Writes.STATUS if watch.kind in STATUS_KINDS else watch.writes,
                reason="names to publish, and the condition Published",
                only_with="a name server" if source.name in self_published else watch.only_with,
            )
            for source in sources
            for watch in source.watches
        ]
        if STATEFULSETS in self._sources:
            watches += SET_WATCHES
        if options.endpoints_in:
            watches.append(
                Watch(
                    Role.LOCAL,
                    DNSEndpoint,
                    namespace=options.endpoints_in,
                    indexes=(ENDPOINTS_BY_DNS_NAME,),
                    writes=Writes.OBJECTS,
                    reason="published names, for ExternalDNS",
                )
            )
        if options.server is not None:
            watches.append(Watch(Role.OUTSIDE, PublishedName, writes=Writes.OBJECTS))
        self.watches: tuple[Watch, ...] = tuple(watches)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys that the zone sources name for a change, with topics `SOURCE.TOPIC`.

        For a DNSEndpoint only the keys of our DNSEndpoints that share a name with it, and none of
        the sources; none for a PublishedName.
        """
        if isinstance(change, ObjectChange) and isinstance(change.object, PublishedName):
            return  # the runtime enqueues the key of an owned object
        if isinstance(change, ObjectChange) and isinstance(change.object, DNSEndpoint):
            yield from self._conflicting_keys(change, snapshot)
            return
        for source in self._sources.values():
            for key in source.keys_for(change, snapshot):
                yield Key(f"{source.name}.{key.topic}", key.name, key.namespace)

    def _conflicting_keys(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """The keys of our DNSEndpoints that share a name with a changed one, before or after."""
        for side in (change.before, change.after):
            if isinstance(side, DNSEndpoint):
                texts = conflicting_keys(side, self.name, snapshot)
                yield from (key for text in texts if (key := parse_key(text)) is not None)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The DNSEndpoint and PublishedNames of a key's names in the zone, with status changes.

        Each only if the options ask for it; no DNSEndpoint for a source of which another feature
        writes them. A source that cannot be read keeps all objects; one no longer configured has an
        empty plan.
        """
        source_name, _, topic = key.topic.partition(".")
        source = self._sources.get(source_name)
        if source is None:
            return Plan()  # a source that is no longer configured
        build_nodes = source.records_for(snapshot)
        names = build_nodes(Key(topic, key.name, key.namespace))
        if names is None:
            return Plan(keep_all=True)
        nodes = [node for node in names if is_subdomain(node.name, self._zone)]
        sources = frozenset(c for w in source.watches for c in snapshot.clusters(w.role))
        desired: list[Desired] = []
        if self._options.endpoints_in and source_name not in self._self_published:
            render_records = weighted_records if self._options.weighted else endpoint_records
            found = dns_endpoint(key, self._options.endpoints_in, nodes, render_records)
            desired += [Desired(found, snapshot.local, sources=sources)] if found else []
        if self._options.server is not None:
            published = published_names(nodes)
            desired += [Desired(name, NAME_SERVER, sources=sources) for name in published]
        patches, events = status_changes(key, desired, snapshot)
        return Plan(tuple(desired), patches=patches, events=events)
