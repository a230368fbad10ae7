"""Names kept compiled: a change recompiles what it concerns and nothing else."""

from collections.abc import Iterable, Sequence
from itertools import islice

from hanse.dns.messages import Delta
from hanse.model.dns.names import parent_name
from hanse.model.dns.records import RecordType, ZoneNode, address_rdata, full_rrset, ns_name
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.plan import Key
from hanse.model.snapshot import Change, Snapshot

SourceKey = tuple[int, Key]
"""A key of the source at that place in the order of sources."""

_APEX = -1


class Compiler:
    """All names of one view, from all of its sources.

    Changes are recorded as they come (`on_change`) and compiled in pieces (`compile`), so that a
    list of ten thousand services never blocks the loop for long.
    """

    def __init__(self, view: View, sources: Sequence[ZoneSource], serial: int = 1) -> None:
        self.view = view
        self.sources = tuple(sources)
        self.zones = tuple(dict.fromkeys(zone for source in sources for zone in source.zones))
        self.synced = False
        self.serial = serial
        self._due: dict[SourceKey, None] = {}
        self._told: dict[SourceKey, tuple[ZoneNode, ...]] = {}
        self._tellers: dict[bytes, tuple[SourceKey, ZoneNode]] = {}
        """Who is heard about a name, and what is told."""
        self._rivals: dict[bytes, dict[SourceKey, ZoneNode]] = {}
        """All who tell a name, where there are several."""
        self._children: dict[bytes, int] = {}
        """How many names stand directly below a name: it exists for their sake."""
        self._touched: dict[bytes, ZoneNode | None] = {}
        """Names that are other than workers know, as they are now; None: gone."""
        self._told_synced = False
        for zone in self.zones:
            self._take((_APEX, Key(zone.hex())), self._apex(zone))

    def __len__(self) -> int:
        return len(self._tellers.keys() | self._children.keys())

    @property
    def due(self) -> bool:
        """Whether there is anything to compile or to tell."""
        return bool(self._due or self._touched) or self.synced != self._told_synced

    def on_change(self, change: Change, snapshot: Snapshot) -> None:
        """Note what a change concerns."""
        for place, source in enumerate(self.sources):
            for key in source.keys_for(change, snapshot):
                self._due[(place, key)] = None
        self.update_synced(snapshot)

    def enqueue_all(self, snapshot: Snapshot) -> None:
        """Note every key there is or was: for a start, or after an unknown gap."""
        for place, source in enumerate(self.sources):
            for key in source.keys(snapshot):
                self._due[(place, key)] = None
        for whose in self._told:
            if whose[0] != _APEX:
                self._due[whose] = None
        self.update_synced(snapshot)

    def update_synced(self, snapshot: Snapshot) -> None:
        """Notice that all is known for the first time; an outage later does not undo that."""
        self.synced = self.synced or all(source.synced(snapshot) for source in self.sources)

    def compile(self, snapshot: Snapshot, most: int = 1_000_000) -> Delta:
        """Compile what is due, some keys at a time, and tell what has changed by it."""
        tellings = [source.records_for(snapshot) for source in self.sources]
        for whose in list(islice(self._due, most)):
            del self._due[whose]
            told = tellings[whose[0]](whose[1])
            if told is not None:
                self._take(whose, tuple(told))
        touched, self._touched = self._touched, {}
        nodes = [node for node in touched.values() if node is not None]
        removed = [name for name, node in touched.items() if node is None]
        self.serial += bool(touched)
        self._told_synced = self._told_synced or (self.synced and not self._due)
        return self._delta(nodes, tuple(removed), replace_all=False)

    def full_delta(self) -> Delta:
        """Everything compiled so far, for a worker that knows nothing."""
        names = self._tellers.keys() | self._children.keys()
        return self._delta([self._named(name) for name in names], (), replace_all=True)

    def _delta(
        self, nodes: list[ZoneNode], removed: tuple[bytes, ...], *, replace_all: bool
    ) -> Delta:
        return Delta(
            view=self.view.name,
            serial=self.serial,
            zones=self.zones,
            synced=self._told_synced,
            replace_all=replace_all,
            nodes=tuple(nodes),
            removed=removed,
            regions=self.view.regions if replace_all else (),
            resolvers=self.view.resolvers if replace_all else (),
            secondaries=self.view.secondaries if replace_all else (),
        )

    def _take(self, whose: SourceKey, nodes: tuple[ZoneNode, ...]) -> None:
        """Replace what a key told by what it tells now."""
        known = self._told.get(whose, ())
        if known == nodes:
            return
        if nodes:
            self._told[whose] = nodes
        else:
            del self._told[whose]
        if not known:
            self._take_new(whose, nodes)
            return
        before = {node.name: node.rrsets for node in known}
        for node in nodes:
            if not node.name.endswith(self.zones):
                continue
            if before.pop(node.name, None) != node.rrsets:
                self._tell(whose, node)
        for name in before:
            self._untell(name, whose)

    def _take_new(self, whose: SourceKey, nodes: tuple[ZoneNode, ...]) -> None:
        """The same for a key that told nothing yet: all keys at the start, so it is made quick."""
        tellers, children, touched, zones = self._tellers, self._children, self._touched, self.zones
        for node in nodes:
            name = node.name
            if not name.endswith(zones):
                continue
            if name in tellers:
                self._tell(whose, node)
                continue
            tellers[name] = (whose, node)
            touched[name] = node
            if name in children or name in zones:
                continue
            parent = parent_name(name)
            if parent in children:  # it exists, and so do the names above it
                children[parent] += 1
            else:
                self._joined(name)

    def _tell(self, whose: SourceKey, node: ZoneNode) -> None:
        name = node.name
        first = self._tellers.get(name)
        if first is None:
            self._joined(name)
            self._tellers[name] = (whose, node)
            self._touched[name] = node
            return
        everyone = self._rivals.setdefault(name, dict([first]))
        everyone[whose] = node
        self._choose(name, everyone)

    def _untell(self, name: bytes, whose: SourceKey) -> None:
        if name not in self._tellers:
            return
        everyone = self._rivals.get(name)
        if everyone is None:
            del self._tellers[name]
            self._touched[name] = ZoneNode(name) if name in self._children else None
            self._left(name)
            return
        del everyone[whose]
        self._choose(name, everyone)

    def _choose(self, name: bytes, everyone: dict[SourceKey, ZoneNode]) -> None:
        """Of several that tell a name the first is heard."""
        first = min(everyone)
        self._tellers[name] = (first, everyone[first])
        self._touched[name] = everyone[first]
        if len(everyone) == 1:
            del self._rivals[name]

    def _joined(self, name: bytes) -> None:
        """A name is told: the names above it exist now, if they did not before."""
        children, tellers, zones = self._children, self._tellers, self.zones
        known = name in children
        while not known and name not in zones:
            name = parent_name(name)
            number = children.get(name, 0)
            known = number > 0 or name in tellers
            children[name] = number + 1
            if not known:
                self._touched[name] = ZoneNode(name)

    def _left(self, name: bytes) -> None:
        """A name is no longer told: so go the names above it that stood for its sake alone."""
        stays = name in self._children
        while not stays and name not in self.zones:
            name = parent_name(name)
            self._children[name] -= 1
            if not self._children[name]:
                del self._children[name]
            stays = name in self._tellers or name in self._children
            if not stays:
                self._touched[name] = None

    def _named(self, name: bytes) -> ZoneNode:
        told = self._tellers.get(name)
        return ZoneNode(name) if told is None else told[1]

    def _apex(self, zone: bytes) -> tuple[ZoneNode, ...]:
        """What every zone has beside its SOA, which workers write: the name of its server."""
        server = ns_name(zone)
        rdatas = [rdata for text in self.view.servers if (rdata := address_rdata(text))]
        families = ((RecordType.A, 4), (RecordType.AAAA, 16))
        own = [(rtype, [r for r in rdatas if len(r) == size]) for rtype, size in families]
        ttl = self.view.ttl
        return (
            ZoneNode(zone, (full_rrset(RecordType.NS, [server], ttl),)),
            ZoneNode(server, tuple(full_rrset(t, several, ttl) for t, several in own if several)),
        )


def compiled(view: View, sources: Iterable[ZoneSource], snapshot: Snapshot) -> Delta:
    """All names of a view at once, from scratch."""
    compiler = Compiler(view, tuple(sources))
    compiler.enqueue_all(snapshot)
    compiler.compile(snapshot)
    return compiler.full_delta()
