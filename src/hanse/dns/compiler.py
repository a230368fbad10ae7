"""Compiles the zone data of a view incrementally: a change recompiles only the keys it concerns."""

from collections.abc import Callable, Sequence
from itertools import islice

from hanse.dns.messages import Delta
from hanse.model.dns.names import parent_name
from hanse.model.dns.records import RecordType, ZoneNode, address_rdata, full_rrset, ns_name
from hanse.model.dns.zones import KnownZoneSource, View, ZoneSource
from hanse.model.plan import Key
from hanse.model.snapshot import Change, Snapshot

SourceKey = tuple[int, Key]
"""The index of a source, and one of its keys."""
NodeBuilder = Callable[[Key], Sequence[ZoneNode] | None]

_APEX = -1


class Compiler:
    """All names of one view, from all of its sources.

    Changes enqueue keys (`on_change`), and keys are compiled in batches (`compile`), so that a
    list of ten thousand services never blocks the event loop for long.
    """

    def __init__(self, view: View, sources: Sequence[ZoneSource], serial: int = 1) -> None:
        """Start not synced, at that serial; the apexes of all zones exist from the start."""
        self.view = view
        self.sources = tuple(sources)
        self.zones = tuple(dict.fromkeys(zone for source in sources for zone in source.zones))
        self.synced = False
        self.serial = serial
        self._queue: dict[SourceKey, None] = {}
        self._unread: dict[int, dict[SourceKey, None]] = {}
        """Sources that a new reader has not listed yet, and their keys, which wait for that."""
        self._kept: dict[SourceKey, None] = {}
        """Keys whose nodes stay since their source returned None or failed when last asked."""
        self._failures: dict[SourceKey, str] = {}
        """What the source of a key raised when it was last asked."""
        self._unreported: dict[SourceKey, Exception] = {}
        self._unmapped: set[int] = set()
        """Sources that could not map a change to keys, or list them."""
        self._nodes_by_key: dict[SourceKey, tuple[ZoneNode, ...]] = {}
        self._owners: dict[bytes, tuple[SourceKey, ZoneNode]] = {}
        """The source key that provides a name, and its node."""
        self._contenders: dict[bytes, dict[SourceKey, ZoneNode]] = {}
        """All source keys that have a name, if there are several."""
        self._children: dict[bytes, int] = {}
        """Number of direct children of a name, which exists because of them (RFC 8020)."""
        self._changed: dict[bytes, ZoneNode | None] = {}
        """Nodes that changed since the last delta; None: the name no longer exists."""
        self._sent_synced = False
        self._answering = tuple(
            zone for source in self.sources if _answers_known(source) for zone in source.zones
        )
        for zone in self.zones:
            self._replace_nodes((_APEX, Key(zone.hex())), self._apex_nodes(zone))

    def __len__(self) -> int:
        """The number of names in all zones, including empty ones that only have children."""
        return len(self._owners.keys() | self._children.keys())

    @property
    def due(self) -> bool:
        """Whether `compile` has work, or something is unsent or unreported.

        Work is queued keys; changes and `synced` are sent, failures reported.
        """
        waiting = self._queue or self._changed or self._unreported
        return bool(waiting) or self.synced != self._sent_synced

    def on_change(self, change: Change, snapshot: Snapshot) -> None:
        """Enqueue the keys that a change concerns, for `compile`; also updates `synced`.

        If a source cannot tell them, all of its keys are enqueued by `enqueue_kept`; see
        `take_failures`.
        """
        for index, source in enumerate(self.sources):
            try:
                keys = tuple(source.keys_for(change, snapshot))
            except Exception as error:  # noqa: BLE001 - one object must not end all answers
                self._on_unmapped(index, error)
                continue
            for key in keys:
                self._enqueue((index, key))
        self.update_synced(snapshot)

    def enqueue(self, index: int, key: Key) -> None:
        """Enqueue a key of the source at that index, for `compile`."""
        self._enqueue((index, key))

    @property
    def keeps(self) -> bool:
        """Whether nodes may stay only because a source returned None or failed when last asked."""
        return bool(self._kept or self._unmapped)

    def enqueue_kept(self, snapshot: Snapshot) -> None:
        """Enqueue the keys whose nodes were kept: a source may keep them for some time only.

        And all keys of sources that could not map a change, or list their keys.
        """
        for source_key in self._kept:
            self._enqueue(source_key)
        unmapped, self._unmapped = self._unmapped, set()
        for index in unmapped:
            self._enqueue_all_of(index, snapshot)

    def start_reading(self, snapshot: Snapshot) -> None:
        """Enqueue all keys for a new reader, such as an agent that was restarted.

        Of a synced view, keys are held back until the reader has listed their source: names that an
        earlier one compiled are kept until then. Sources that answer from what they last knew are
        exempt.
        """
        if self.synced:
            sources = enumerate(self.sources)
            self._unread = {index: {} for index, each in sources if not _answers_known(each)}
        self.enqueue_all(snapshot)

    def enqueue_all(self, snapshot: Snapshot) -> None:
        """Enqueue all current and former keys: at the start, or after changes were missed.

        Also updates `synced`.
        """
        for index in range(len(self.sources)):
            self._enqueue_all_of(index, snapshot)
        self.update_synced(snapshot)

    def update_synced(self, snapshot: Snapshot) -> None:
        """Become synced once all sources are; a later outage does not undo that.

        Keys that waited for a source that is now read are enqueued.
        """
        self.synced = self.synced or all(source.synced(snapshot) for source in self.sources)
        read = [index for index in self._unread if self.sources[index].synced(snapshot)]
        for index in read:
            self._queue |= self._unread.pop(index)

    def compile(self, snapshot: Snapshot, most: int = 1_000_000) -> Delta:
        """Compile up to `most` queued keys, and return the changes since the last delta.

        A key for which its source returns None, or fails, keeps its nodes; see `take_failures`.
        Changes increment the serial. The delta is synced once all sources are and no key is queued.
        """
        builders = [_builder(source, snapshot) for source in self.sources]
        for source_key in list(islice(self._queue, most)):
            del self._queue[source_key]
            built = self._build(builders[source_key[0]], source_key)
            if built is None:
                self._kept[source_key] = None
            else:
                self._kept.pop(source_key, None)
                self._replace_nodes(source_key, built)
        changed, self._changed = self._changed, {}
        nodes = [node for node in changed.values() if node is not None]
        removed = [name for name, node in changed.items() if node is None]
        self.serial += bool(changed)
        self._sent_synced = self._sent_synced or (self.synced and not self._queue)
        return self._delta(nodes, tuple(removed), replace_all=False)

    def take_failures(self) -> list[tuple[Key, Exception]]:
        """The keys whose source has failed since the last call, each other failure of a key once.

        Whatever somebody wrote into an object, its names are the only ones that it may cost.
        """
        taken, self._unreported = self._unreported, {}
        return [(source_key[1], error) for source_key, error in taken.items()]

    def _on_unmapped(self, index: int, error: Exception) -> None:
        """Record that a source could not tell keys: all of them are enqueued later."""
        self._unmapped.add(index)
        self._unreported[index, Key("all", self.sources[index].name)] = error

    def _enqueue_all_of(self, index: int, snapshot: Snapshot) -> None:
        """Enqueue all current and former keys of a source; the latter alone if it fails."""
        try:
            keys = tuple(self.sources[index].keys(snapshot))
        except Exception as error:  # noqa: BLE001 - one object must not end all answers
            self._on_unmapped(index, error)
            keys = ()
        former = [key for of, key in self._nodes_by_key if of == index]
        for key in (*keys, *former):
            self._enqueue((index, key))

    def _build(self, build: NodeBuilder, source_key: SourceKey) -> tuple[ZoneNode, ...] | None:
        """The nodes of a key; None if its source keeps them, or fails, which is recorded."""
        try:
            built = build(source_key[1])
            nodes = tuple(built) if built is not None else None
        except Exception as error:  # noqa: BLE001 - the per-key boundary; `take_failures` has it
            if self._failures.get(source_key) != repr(error):
                self._failures[source_key] = repr(error)
                self._unreported[source_key] = error
            return None
        self._failures.pop(source_key, None)
        return nodes

    def full_delta(self) -> Delta:
        """A delta with `replace_all` of all nodes compiled so far, for a worker that starts."""
        names = self._owners.keys() | self._children.keys()
        return self._delta([self._node_at(name) for name in names], (), replace_all=True)

    def _enqueue(self, source_key: SourceKey) -> None:
        """Queue a key for `compile`; it is held back while its source is still to be listed."""
        self._unread.get(source_key[0], self._queue)[source_key] = None

    def _delta(
        self, nodes: list[ZoneNode], removed: tuple[bytes, ...], *, replace_all: bool
    ) -> Delta:
        """A delta of these nodes and removed names, at the current serial.

        Only with `replace_all` it contains the regions, resolvers and secondaries of the view.
        """
        return Delta(
            view=self.view.name,
            serial=self.serial,
            zones=self.zones,
            synced=self._sent_synced,
            answering=self._answering,
            replace_all=replace_all,
            nodes=tuple(nodes),
            removed=removed,
            regions=self.view.regions if replace_all else (),
            resolvers=self.view.resolvers if replace_all else (),
            secondaries=self.view.secondaries if replace_all else (),
        )

    def _replace_nodes(self, source_key: SourceKey, nodes: tuple[ZoneNode, ...]) -> None:
        """Replace the nodes of a key, and record what changed; ignores names outside the zones."""
        known = self._nodes_by_key.get(source_key, ())
        if known == nodes:
            return
        if nodes:
            self._nodes_by_key[source_key] = nodes
        else:
            del self._nodes_by_key[source_key]
        if not known:
            self._add_first_nodes(source_key, nodes)
            return
        before = {node.name: node.rrsets for node in known}
        for node in nodes:
            if not node.name.endswith(self.zones):
                continue
            if before.pop(node.name, None) != node.rrsets:
                self._add(source_key, node)
        for name in before:
            self._remove(name, source_key)

    def _add_first_nodes(self, source_key: SourceKey, nodes: tuple[ZoneNode, ...]) -> None:
        """As `_replace_nodes`, for a key without nodes; optimised, because all keys start so."""
        owners, children, changed, zones = self._owners, self._children, self._changed, self.zones
        for node in nodes:
            name = node.name
            if not name.endswith(zones):
                continue
            if name in owners:
                self._add(source_key, node)
                continue
            owners[name] = (source_key, node)
            changed[name] = node
            if name in children or name in zones:
                continue
            parent = parent_name(name)
            if parent in children:  # it exists, and so do the names above it
                children[parent] += 1
            else:
                self._add_to_parents(name)

    def _add(self, source_key: SourceKey, node: ZoneNode) -> None:
        """Add or change a node of a source key; the lowest key of several provides the name."""
        name = node.name
        first = self._owners.get(name)
        if first is None:
            self._add_to_parents(name)
            self._owners[name] = (source_key, node)
            self._changed[name] = node
            return
        contenders = self._contenders.setdefault(name, dict([first]))
        contenders[source_key] = node
        self._elect_owner(name, contenders)

    def _remove(self, name: bytes, source_key: SourceKey) -> None:
        """Remove a name of a source key; another source key may still have it.

        A name that still has children stays as an empty node.
        """
        if name not in self._owners:
            return
        contenders = self._contenders.get(name)
        if contenders is None:
            del self._owners[name]
            self._changed[name] = ZoneNode(name) if name in self._children else None
            self._remove_from_parents(name)
            return
        del contenders[source_key]
        self._elect_owner(name, contenders)

    def _elect_owner(self, name: bytes, contenders: dict[SourceKey, ZoneNode]) -> None:
        """Let the lowest of several source keys (source order, then key) provide a name.

        The name is recorded as changed; a single source key left over is no contender any more.
        """
        first = min(contenders)
        self._owners[name] = (first, contenders[first])
        self._changed[name] = contenders[first]
        if len(contenders) == 1:
            del self._contenders[name]

    def _add_to_parents(self, name: bytes) -> None:
        """Count a new name as a direct child of its parent; no effect if it had children before.

        A parent that did not exist becomes an empty node, and is counted in its own parent, and so
        on up to a name that existed, or the apex.
        """
        children, owners, zones = self._children, self._owners, self.zones
        known = name in children
        while not known and name not in zones:
            name = parent_name(name)
            number = children.get(name, 0)
            known = number > 0 or name in owners
            children[name] = number + 1
            if not known:
                self._changed[name] = ZoneNode(name)

    def _remove_from_parents(self, name: bytes) -> None:
        """Uncount a removed name in its parents; those that existed only for it are removed."""
        exists = name in self._children
        while not exists and name not in self.zones:
            name = parent_name(name)
            self._children[name] -= 1
            if not self._children[name]:
                del self._children[name]
            exists = name in self._owners or name in self._children
            if not exists:
                self._changed[name] = None

    def _node_at(self, name: bytes) -> ZoneNode:
        """The compiled node of a name; an empty one if the name only has children."""
        owner = self._owners.get(name)
        return ZoneNode(name) if owner is None else owner[1]

    def _apex_nodes(self, zone: bytes) -> tuple[ZoneNode, ...]:
        """The NS record of a zone, and its glue: the node of the name server with its addresses.

        Workers write the SOA, which holds the serial. Invalid addresses of the view's servers are
        left out.
        """
        server = ns_name(zone)
        rdatas = [rdata for text in self.view.servers if (rdata := address_rdata(text))]
        families = ((RecordType.A, 4), (RecordType.AAAA, 16))
        own = [(rtype, [r for r in rdatas if len(r) == size]) for rtype, size in families]
        ttl = self.view.ttl
        return (
            ZoneNode(zone, (full_rrset(RecordType.NS, [server], ttl),)),
            ZoneNode(server, tuple(full_rrset(t, several, ttl) for t, several in own if several)),
        )


def _builder(source: ZoneSource, snapshot: Snapshot) -> NodeBuilder:
    """The function of a source that builds the nodes of a key; one that raises what that raised."""
    try:
        return source.records_for(snapshot)
    except Exception as error:  # noqa: BLE001 - one object must not end all answers
        failure = error

        def failing(_: Key) -> None:
            raise failure

        return failing


def _answers_known(source: ZoneSource) -> bool:
    """Whether a source answers from what it last knew, before its objects are listed."""
    return isinstance(source, KnownZoneSource) and source.answers_known
