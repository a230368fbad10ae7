"""What a worker knows of one view: prepared answers by question, and the turns they take."""

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
"""The header after its id: by whether recursion was desired, then also with EDNS."""

Entry = Sequence[Any]
"""Header, records, how often it was given, whose turn it is where there are several, and one round
of them where it is short.

A tuple, or a list where it changes: no answer has a class of its own on the hot path.
"""

Hit = tuple[Iterator[bytes], list[int]]
"""Whole answers without their id, in turn, and how often one was given."""

MOST_HITS = 20_000

_IN = b"\0\1"
_ADDRESSES = (RecordType.A, RecordType.AAAA)
_SHORT_ROUND = 16


def headers(rcode: int, answers: int, authority: int = 0) -> Headers:
    """The headers of an answer to a question in the usual form."""

    def head(recursion: int, additional: int) -> bytes:
        flags = bytes((0x84 | recursion, rcode))
        numbers = (1, answers, authority, additional)
        return flags + b"".join(number.to_bytes(2) for number in numbers)

    return (head(0, 0), head(1, 0), head(0, 1), head(1, 1))


class Zone:
    """One zone of a view, with what is told where there is nothing."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.text = name_text(name)
        self.authority = b""


class Table:
    """All names of one view. `answers` is the whole of the hot path."""

    def __init__(self, view: str, random: Random) -> None:
        self.view = view
        self.answers: dict[bytes, Entry] = {}
        self.ready: Mapping[bytes, Entry] = {}
        """The answers once the view is synced; before that there are none to give."""
        self.names: dict[bytes, tuple[int, ...]] = {}
        """The types that each name has in `answers`."""
        self.aliases: dict[bytes, tuple[int, bytes]] = {}
        """Names that stand for others, and for how long that may be kept."""
        self.zones: dict[bytes, Zone] = {}
        self.counts: dict[tuple[str, str, int], list[int]] = {}
        """How many answers were given, by zone, type and code."""
        self.client_selectors: dict[
            bytes, tuple[ClientSelector, list[tuple[Headers, bytes]], list[int]]
        ] = {}
        """Answers that depend on who asks: how one is chosen, all of them, how often given."""
        self.regions = Regions()
        self.resolvers = Resolvers()
        self.secondaries: tuple[str, ...] = ()
        self.kept: dict[bytes, ZoneNode] | None = None
        """Every name as it was told, where zones may be transferred to somebody."""
        self._random = random
        self.response_cache: dict[bytes, Hit] = {}
        """Answers to packets as they came, without their id: valid until anything changes."""
        self._heads: dict[int, Headers] = {}
        self._nothing: dict[tuple[bytes, int], list[Any]] = {}

    def apply(self, delta: Delta) -> None:
        """Take in what has changed."""
        self.response_cache.clear()
        if delta.replace_all:
            self.answers.clear()
            self.client_selectors.clear()
            self.aliases.clear()
            self.names.clear()
            self.regions = Regions(delta.regions)
            self.resolvers = Resolvers(delta.resolvers)
            self.secondaries = delta.secondaries
            self.kept = {} if delta.secondaries else None
        self.zones = {z: self.zones.get(z) or Zone(z) for z in delta.zones}
        self._sign(delta.serial)
        for name in delta.removed:
            self._drop(name)
        for named in delta.nodes:
            self._put(named)
        self._keep(delta)
        if delta.synced:
            self.ready = self.answers

    def _keep(self, delta: Delta) -> None:
        if self.kept is not None:
            self.kept.update((named.name, named) for named in delta.nodes)
            for name in delta.removed:
                self.kept.pop(name, None)

    @property
    def synced(self) -> bool:
        """Whether a name that is not known does not exist."""
        return self.ready is self.answers

    def zone_of(self, name: bytes) -> Zone | None:
        """The zone that a name belongs to: the closest one above it."""
        while True:
            zone = self.zones.get(name)
            if zone is not None:
                return zone
            if name == ROOT:
                return None
            name = parent_name(name)

    def counter(self, zone: str, rtype: str, rcode: int) -> list[int]:
        """Where answers of that kind are counted."""
        return self.counts.setdefault((zone, rtype, rcode), [0])

    def cache_response(self, packet: bytes, entry: Entry, kind: int, opt: bytes, room: int) -> None:
        """Remember the answers to a packet in the usual form, where all of them fit."""
        front, body, counter, waiting, round_ = entry
        if waiting is not None and round_ is None:
            return
        if len(self.response_cache) >= MOST_HITS:  # someone varies the case of names: begin anew
            self.response_cache.clear()
        question = packet[12 : len(packet) - len(opt)]
        whole = [h[kind] + question + b + opt for h, b in round_ or [(front, body)]]
        if max(map(len, whole)) + 2 <= room:
            taken = cycle(whole) if round_ else repeat(whole[0])
            self.response_cache[packet[2:]] = (taken, counter)

    def _sign(self, serial: int) -> None:
        """Every empty answer ends with its zone's SOA, whose serial changes whenever names do."""
        for zone in self.zones.values():
            zone.authority = soa_record(zone.name, serial)
            front = zone.authority[len(zone.name) :]
            counter = self.counter(zone.text, "SOA", Rcode.NOERROR)
            entry = (self._heads_of(1), b"\xc0\x0c" + front, counter, None, None)
            self.answers[_question(zone.name, RecordType.SOA)] = entry
        for (name, _), empty in self._nothing.items():
            if name in self.zones:
                empty[1] = self.zones[name].authority

    def _put(self, named: ZoneNode) -> None:
        zone = self.zone_of(named.name)
        if zone is None:
            return
        self._drop(named.name)
        types: list[int] = []
        target = find_cname(named)
        if target is not None:
            self.aliases[named.name] = target
        told = [a for a in named.rrsets if target is None or a.type == RecordType.CNAME]
        for answer in told:
            types.append(answer.type)
            question = _question(named.name, answer.type)
            if answer.selection is not None:
                self.client_selectors[question] = self._chosen(zone, answer)
            else:
                self.answers[question] = self._entry(zone, answer)
        for rtype in _ADDRESSES if target is None else ():
            if rtype not in types:
                types.append(rtype)
                self.answers[_question(named.name, rtype)] = self._empty(zone, rtype)
        self.names[named.name] = _interned(tuple(types))

    def _drop(self, name: bytes) -> None:
        self.aliases.pop(name, None)
        for rtype in self.names.pop(name, ()):
            self.answers.pop(_question(name, rtype), None)
            self.client_selectors.pop(_question(name, rtype), None)

    def _entry(self, zone: Zone, answer: RRset) -> Entry:
        counter = self.counter(zone.text, type_mnemonic(answer.type), Rcode.NOERROR)
        first = answer.variants[0]
        front = self._heads_of(first.count)
        if len(answer.variants) == 1 and not answer.stride:
            return (front, first.body, counter, None, None)
        if answer.stride:
            return (front, first.body, counter, _moving(front, first.body, answer.stride), None)
        prepared = [(self._heads_of(v.count), v.body) for v in answer.variants]
        order = weighted_order(tuple([v.weight for v in answer.variants]))
        start = self._random.randrange(len(order))
        if len(order) > _SHORT_ROUND:
            return (front, first.body, counter, _long_round(prepared, order, start), None)
        round_ = [prepared[i] for i in order[start:] + order[:start]]
        return (front, first.body, counter, cycle(round_), round_)

    def _chosen(
        self, zone: Zone, answer: RRset
    ) -> tuple[ClientSelector, list[tuple[Headers, bytes]], list[int]]:
        counter = self.counter(zone.text, type_mnemonic(answer.type), Rcode.NOERROR)
        prepared = [(self._heads_of(v.count), v.body) for v in answer.variants]
        return ClientSelector(answer, self._random), prepared, counter

    def _empty(self, zone: Zone, rtype: int) -> Entry:
        """The answer that a name has nothing of a type; one for all names of a zone."""
        known = self._nothing.get((zone.name, rtype))
        if known is None:
            counter = self.counter(zone.text, type_mnemonic(rtype), Rcode.NOERROR)
            known = [headers(Rcode.NOERROR, 0, 1), zone.authority, counter, None, None]
            self._nothing[(zone.name, rtype)] = known
        return known

    def _heads_of(self, number: int) -> Headers:
        found = self._heads.get(number)
        if found is None:
            found = self._heads[number] = headers(Rcode.NOERROR, number)
        return found


_known_types: dict[tuple[int, ...], tuple[int, ...]] = {}


def _interned(types: tuple[int, ...]) -> tuple[int, ...]:
    return _known_types.setdefault(types, types)


def _question(name: bytes, rtype: int) -> bytes:
    return name + rtype.to_bytes(2) + _IN


def _long_round(
    prepared: list[tuple[Headers, bytes]], order: tuple[int, ...], start: int
) -> Iterator[tuple[Headers, bytes]]:
    """A round that is too long for every name to have its own copy."""
    for at in count(start):
        yield prepared[order[at % len(order)]]


def _moving(front: Headers, body: bytes, stride: int) -> Iterator[tuple[Headers, bytes]]:
    """The same records, each in front in its turn."""
    for start in count(0, stride):
        at = start % len(body)
        yield front, body[at:] + body[:at]
