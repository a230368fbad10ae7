"""The decision what is published: everything that sources of names tell; pure."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from hanse.features.publishing.options import NAME_SERVER, PublishingOptions
from hanse.features.publishing.records import (
    endpoint,
    endpoint_records,
    published_names,
    weighted_records,
)
from hanse.features.publishing.status import (
    BY_DNS_NAME,
    SET_WATCHES,
    STATEFULSETS,
    STATUS_KINDS,
    conflicting_keys,
    told,
)
from hanse.model.dns.names import is_subdomain, wire_name
from hanse.model.dns.zones import ZoneSource
from hanse.model.facts import Role
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.names import PublishedName
from hanse.model.plan import Desired, Key, Plan, parse_key
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes


class Publishing:
    """Tells the names of sources to DNSEndpoints and to a name server.

    Any `ZoneSource` publishes in the same way; its keys become keys of this feature.
    """

    name = "publishing"

    def __init__(
        self,
        sources: Sequence[ZoneSource],
        options: PublishingOptions,
        self_published: frozenset[str] = frozenset(),
    ) -> None:
        self._sources = {source.name: source for source in sources}
        self._by_itself = self_published
        """Sources that others write DNSEndpoints for: every name has one writer."""
        self._options = options
        self._zone = wire_name(options.zone)
        watches = [
            replace(watch, writes=Writes.STATUS) if watch.kind in STATUS_KINDS else watch
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
                    indexes=(BY_DNS_NAME,),
                    writes=Writes.OBJECTS,
                )
            )
        if options.server is not None:
            watches.append(Watch(Role.OUTSIDE, PublishedName, writes=Writes.OBJECTS))
        self.watches: tuple[Watch, ...] = tuple(watches)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        if isinstance(change, ObjectChange) and isinstance(change.object, PublishedName):
            return  # what is ours wakes its key by itself
        if isinstance(change, ObjectChange) and isinstance(change.object, DNSEndpoint):
            yield from self._sharing(change, snapshot)
            return
        for source in self._sources.values():
            for key in source.keys_for(change, snapshot):
                yield Key(f"{source.name}.{key.topic}", key.name, key.namespace)

    def _sharing(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        for side in (change.before, change.after):
            if isinstance(side, DNSEndpoint):
                told = (parse_key(text) for text in conflicting_keys(side, self.name, snapshot))
                yield from (key for key in told if key is not None)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        source_name, _, topic = key.topic.partition(".")
        source = self._sources.get(source_name)
        if source is None:
            return Plan()  # a source that this installation no longer has
        tell = source.records_for(snapshot)
        names = tell(Key(topic, key.name, key.namespace))
        if names is None:
            return Plan(keep_all=True)
        nodes = [node for node in names if is_subdomain(node.name, self._zone)]
        rests_on = frozenset(c for w in source.watches for c in snapshot.clusters(w.role))
        desired: list[Desired] = []
        if self._options.endpoints_in and source_name not in self._by_itself:
            tell_records = weighted_records if self._options.weighted else endpoint_records
            found = endpoint(key, self._options.endpoints_in, nodes, tell_records)
            desired += [Desired(found, snapshot.local, sources=rests_on)] if found else []
        if self._options.server is not None:
            published = published_names(nodes)
            desired += [Desired(name, NAME_SERVER, sources=rests_on) for name in published]
        patches, events = told(key, desired, snapshot)
        return Plan(tuple(desired), patches=patches, events=events)
