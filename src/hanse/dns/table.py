"""The records of one view in a worker: prepared responses by question, with their rotation."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, cycle, repeat
from random import Random
from typing import Any

from hanse.dns.messages import Delta
from hanse.dns.questions import Rcode
from hanse.dns.selection import ClientSelector, Regions, Resolvers, weighted_order
from hanse.model.dns.names import ROOT, name_text, parent_name
from hanse.model.dns.records import (
    RecordType,
    RRset,
    ZoneNode,
    find_cname,
    soa_record,
    type_mnemonic,
)

Headers = tuple[bytes, bytes, bytes, bytes]
"""The message header after its id: without and with RD, then the same with EDNS."""

Entry = Sequence[Any]
"""Headers, records, counter, rotation if there are variants, and one cycle of it if it is short.

A tuple, or a list if it changes: the hot path has no class instance per answer.
"""

CachedResponse = tuple[Iterator[bytes], list[int]]
"""Whole responses without their id, in rotation, and their counter."""

MIN_CACHE_SIZE = 20_000
"""Responses that a cache may have however few names there are: clients vary the case of names."""
CACHED_SHARE = 1 / 3
"""Responses in the cache for each name, if there are many: one takes about 700 bytes."""
PASSED_SHARE = 5
"""Queries for each response in a full cache before it starts over: caching doubles their cost."""

_IN = b"\0\1"
_SOA = RecordType.SOA.to_bytes(2)
_WITH_SOA = b""
"""No name: that of the root has a byte."""
_ADDRESSES = (RecordType.A, RecordType.AAAA)
_MAX_COPIED_CYCLE = 16


def headers(rcode: int, answers: int, authority: int = 0) -> Headers:
    """Response headers after the id, with this rcode and these numbers of records.

    Without and with RD, then the same with EDNS.
    """

    def header(recursion: int, additional: int) -> bytes:
        """Flags, with AA and RCODE, and the four counts of a response, without message ID."""
        flags = bytes((0x84 | recursion, rcode))
        numbers = (1, answers, authority, additional)
        return flags + b"".join(number.to_bytes(2) for number in numbers)

    return (header(0, 0), header(1, 0), header(0, 1), header(1, 1))


class Zone:
    """One zone of a view, with the SOA record for negative responses."""

    def __init__(self, name: bytes) -> None:
        """A zone by its name in wire format; it has no SOA until `Table` writes that."""
        self.name = name
        self.text = name_text(name)
        self.authority = b""


class Table:
    """All names of one view; the hot path looks up `response_cache` and `ready`."""

    def __init__(self, view: str, random: Random, *, forwards: bool = True) -> None:
        """An empty table that is not synced: it answers nothing from `ready` yet.

        `forwards` says whether queries for other zones may go to upstream servers.
        """
        self.view = view
        self.forwards = forwards
        """Whether queries for other zones go to upstream servers, where there are any."""
        self.answers: dict[bytes, Entry] = {}
        self.ready: Mapping[bytes, Entry] = {}
        """`answers` once the view is synced, empty before."""
        self.names: dict[bytes, tuple[int, ...]] = {}
        """Existing names, with the types they have in `answers`."""
        self.aliases: dict[bytes, tuple[int, bytes]] = {}  # TTL and target of each CNAME
        self.zones: dict[bytes, Zone] = {}
        self.counts: dict[tuple[str, str, int], list[int]] = {}
        """Responses by zone, type and rcode."""
        self.client_selectors: dict[
            bytes, tuple[ClientSelector, list[tuple[Headers, bytes]], list[int]]
        ] = {}
        """RRsets that depend on the client: selector, prepared variants, counter."""
        self.answering: tuple[bytes, ...] = ()
        """Zones whose known names are answered before the view is synced."""
        self.regions = Regions()
        self.resolvers = Resolvers()
        self.secondaries: tuple[str, ...] = ()
        self.transfer_nodes: dict[bytes, ZoneNode] | None = None
        """All nodes, if zones may be transferred."""
        self._random = random
        self.response_cache: dict[bytes, CachedResponse] = {}
        """Responses by query packet, both without their id."""
        self._cached: dict[bytes, list[bytes]] = {}
        """The packets in `response_cache` by their name; by `_WITH_SOA` those with a serial."""
        self._passed = 0  # queries that were not cached since the cache is full
        self._headers_by_count: dict[int, Headers] = {}
        self._nodata: dict[tuple[bytes, int], list[Any]] = {}

    def apply(self, delta: Delta) -> None:
        """Apply a delta: all names with `replace_all`, else changes; writes SOAs with its serial.

        Regions, resolvers and secondaries are replaced only with `replace_all`. Cached responses of
        changed names are forgotten. Once a delta was synced, the table stays so.
        """
        if delta.replace_all or delta.zones != tuple(self.zones):
            self._clear_cache()
        else:
            self._forget_responses(delta)
        if delta.replace_all:
            self.answers.clear()
            self.client_selectors.clear()
            self.aliases.clear()
            self.names.clear()
            self.regions = Regions(delta.regions)
            self.resolvers = Resolvers(delta.resolvers)
            self.secondaries = delta.secondaries
            self.transfer_nodes = {} if delta.secondaries else None
        self.zones = {z: self.zones.get(z) or Zone(z) for z in delta.zones}
        self._write_soa(delta.serial)
        for name in delta.removed:
            self._drop(name)
        for node in delta.nodes:
            self._put(node)
        self._update_transfer_nodes(delta)
        self.answering = delta.answering
        if delta.synced:
            self.ready = self.answers

    def _update_transfer_nodes(self, delta: Delta) -> None:
        """Apply a delta to the nodes for zone transfers, if this table keeps them.

        It does if the view has secondaries.
        """
        if self.transfer_nodes is not None:
            self.transfer_nodes.update((node.name, node) for node in delta.nodes)
            for name in delta.removed:
                self.transfer_nodes.pop(name, None)

    @property
    def synced(self) -> bool:
        """Whether a delta was synced: absent names are then NXDOMAIN, before that SERVFAIL."""
        return self.ready is self.answers

    def can_answer(self, zone: Zone, name: bytes) -> bool:
        """Whether a name can be answered: the view is synced, or an answering zone has it.

        Names that exist in an answering zone are answered before the view is synced.
        """
        return self.synced or (zone.name in self.answering and name in self.names)

    def zone_of(self, name: bytes) -> Zone | None:
        """The closest zone that contains a name; None if it is in none."""
        while True:
            zone = self.zones.get(name)
            if zone is not None:
                return zone
            if name == ROOT:
                return None
            name = parent_name(name)

    def counter(self, zone: str, rtype: str, rcode: int) -> list[int]:
        """The counter of responses of a zone, type and rcode: a list of one number to increment."""
        return self.counts.setdefault((zone, rtype, rcode), [0])

    def cache_response(self, packet: bytes, entry: Entry, kind: int, opt: bytes, room: int) -> None:
        """Cache the responses to a query, if all of them fit into `room` bytes.

        `kind` is the index into `Headers`, `opt` the OPT record of the response. Rotations that are
        long or of records are not cached. A full cache ignores further queries up to a number, then
        starts over: clients may vary the case of names, or ask for more names than it holds.
        """
        front, body, counter, rotation, cycle_ = entry
        if rotation is not None and cycle_ is None:
            return
        size = len(self.response_cache)
        if size >= MIN_CACHE_SIZE and size >= CACHED_SHARE * len(self.names):
            self._passed += 1
            if self._passed < PASSED_SHARE * size:
                return
            self._clear_cache()
        question = packet[12 : len(packet) - len(opt)]
        responses = [h[kind] + question + b + opt for h, b in cycle_ or [(front, body)]]
        if max(map(len, responses)) + 2 <= room:
            rotated = cycle(responses) if cycle_ else repeat(responses[0])
            self.response_cache[packet[2:]] = (rotated, counter)
            has_soa = isinstance(entry, list) or question[-4:-2] == _SOA
            name = _WITH_SOA if has_soa else question[:-4].lower()
            self._cached.setdefault(name, []).append(packet[2:])

    def _clear_cache(self) -> None:
        """Forget every cached response."""
        self.response_cache.clear()
        self._cached.clear()
        self._passed = 0

    def _forget_responses(self, delta: Delta) -> None:
        """Forget the cached responses of changed names, and those with the serial of a zone."""
        if not self.response_cache:
            return
        for name in (_WITH_SOA, *delta.removed, *(node.name for node in delta.nodes)):
            for packet in self._cached.pop(name, ()):
                self.response_cache.pop(packet, None)

    def _write_soa(self, serial: int) -> None:
        """Write each zone's SOA with this serial: as an answer, and to end NODATA responses."""
        for zone in self.zones.values():
            zone.authority = soa_record(zone.name, serial)
            front = zone.authority[len(zone.name) :]
            counter = self.counter(zone.text, "SOA", Rcode.NOERROR)
            entry = (self._headers_for(1), b"\xc0\x0c" + front, counter, None, None)
            self.answers[_question(zone.name, RecordType.SOA)] = entry
        for (name, _), empty in self._nodata.items():
            if name in self.zones:
                empty[1] = self.zones[name].authority

    def _put(self, node: ZoneNode) -> None:
        """Replace the answers of a name; its missing address types get a NODATA entry.

        Names outside the zones are ignored. A name with a CNAME has nothing else, also no NODATA.
        """
        zone = self.zone_of(node.name)
        if zone is None:
            return
        self._drop(node.name)
        types: list[int] = []
        target = find_cname(node)
        if target is not None:
            self.aliases[node.name] = target
        rrsets = [r for r in node.rrsets if target is None or r.type == RecordType.CNAME]
        for rrset in rrsets:
            types.append(rrset.type)
            question = _question(node.name, rrset.type)
            if rrset.selection is not None:
                self.client_selectors[question] = self._client_entry(zone, rrset)
            else:
                self.answers[question] = self._entry(zone, rrset)
        for rtype in _ADDRESSES if target is None else ():
            if rtype not in types:
                types.append(rtype)
                self.answers[_question(node.name, rtype)] = self._nodata_entry(zone, rtype)
        self.names[node.name] = _interned(tuple(types))

    def _drop(self, name: bytes) -> None:
        """Remove a name with all its answers but a zone's SOA; no effect if it does not exist."""
        self.aliases.pop(name, None)
        for rtype in self.names.pop(name, ()):
            self.answers.pop(_question(name, rtype), None)
            self.client_selectors.pop(_question(name, rtype), None)

    def _entry(self, zone: Zone, rrset: RRset) -> Entry:
        """The prepared answer of an RRset, as an `Entry`.

        Several variants rotate by weight from a random start; with a stride, the length of each
        record in bytes, the records themselves rotate.
        """
        counter = self.counter(zone.text, type_mnemonic(rrset.type), Rcode.NOERROR)
        first = rrset.variants[0]
        front = self._headers_for(first.count)
        if len(rrset.variants) == 1 and not rrset.stride:
            return (front, first.body, counter, None, None)
        if rrset.stride:
            return (
                front,
                first.body,
                counter,
                _rotating_order(front, first.body, rrset.stride),
                None,
            )
        prepared = [(self._headers_for(v.count), v.body) for v in rrset.variants]
        order = weighted_order(tuple([v.weight for v in rrset.variants]))
        start = self._random.randrange(len(order))
        if len(order) > _MAX_COPIED_CYCLE:
            return (front, first.body, counter, _long_rotation(prepared, order, start), None)
        cycle_ = [prepared[i] for i in order[start:] + order[:start]]
        return (front, first.body, counter, cycle(cycle_), cycle_)

    def _client_entry(
        self, zone: Zone, rrset: RRset
    ) -> tuple[ClientSelector, list[tuple[Headers, bytes]], list[int]]:
        """The selector, prepared variants and counter of an RRset that depends on the client."""
        counter = self.counter(zone.text, type_mnemonic(rrset.type), Rcode.NOERROR)
        prepared = [(self._headers_for(v.count), v.body) for v in rrset.variants]
        return ClientSelector(rrset, self._random), prepared, counter

    def _nodata_entry(self, zone: Zone, rtype: int) -> Entry:
        """The NODATA entry of a type, shared by all names of a zone."""
        known = self._nodata.get((zone.name, rtype))
        if known is None:
            counter = self.counter(zone.text, type_mnemonic(rtype), Rcode.NOERROR)
            known = [headers(Rcode.NOERROR, 0, 1), zone.authority, counter, None, None]
            self._nodata[(zone.name, rtype)] = known
        return known

    def _headers_for(self, number: int) -> Headers:
        """The headers of a positive response with a number of records."""
        found = self._headers_by_count.get(number)
        if found is None:
            found = self._headers_by_count[number] = headers(Rcode.NOERROR, number)
        return found


_known_types: dict[tuple[int, ...], tuple[int, ...]] = {}


def _interned(types: tuple[int, ...]) -> tuple[int, ...]:
    """The same tuple for equal types: there are few combinations."""
    return _known_types.setdefault(types, types)


def _question(name: bytes, rtype: int) -> bytes:
    """The question section of a name in lower case and a type: the key in `answers`."""
    return name + rtype.to_bytes(2) + _IN


def _long_rotation(
    prepared: list[tuple[Headers, bytes]], order: tuple[int, ...], start: int
) -> Iterator[tuple[Headers, bytes]]:
    """The prepared answers without end, in this order from `start`.

    For a cycle that is too long to copy for every name.
    """
    for at in count(start):
        yield prepared[order[at % len(order)]]


def _rotating_order(front: Headers, body: bytes, stride: int) -> Iterator[tuple[Headers, bytes]]:
    """The same records without end, each first in turn; each is `stride` bytes long."""
    for start in count(0, stride):
        at = start % len(body)
        yield front, body[at:] + body[:at]
