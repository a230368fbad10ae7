"""A name server that is not ours, kept by updates (RFC 2136) that change names of ours alone.

A name is ours by a TXT record below it, `_hanse.<name>`, which holds what any object of ours says
about its owner. Every update asks the server first whether name and mark still are as we saw them,
so that nothing is overwritten that somebody else wrote in between.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import dns.asyncquery
import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdataset
import dns.rdatatype
import dns.tsig
import dns.update
import dns.xfr
import dns.zone

from hanse.features.publishing.owner_records import (
    OWNER_LABEL,
    is_owner_record,
    owner_record,
    parse_published_names,
)
from hanse.features.publishing.records import PUBLISHED_TYPES
from hanse.kube.errors import (
    AlreadyExists,
    ApiError,
    BadCredentials,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Status,
    Unreachable,
)
from hanse.model.kinds.names import PublishedName, RecordSet
from hanse.model.objects import K, Object
from hanse.providers.tsig_keys import InvalidTsigKey, parse_tsig_key

PATIENCE = 5.0
LONGEST_TRANSFER = 60.0

KeyReader = Callable[[], dns.tsig.Key | None]
"""Gives the key as it is now; raises `BadCredentials` where there is none to be read."""


def unsigned() -> None:
    """For servers that go by addresses alone: no key."""


def key_file(path: str) -> KeyReader:
    """The key in a file, read each time: it may have been replaced."""

    def read() -> dns.tsig.Key:
        try:
            return parse_tsig_key(Path(path).read_text())
        except (OSError, UnicodeDecodeError, InvalidTsigKey) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise BadCredentials(f"key file {path}: {why}") from None

    return read


class NameServer:
    """One zone on one server: listed by transfer, written by updates, an engine's outside system.

    What was transferred is kept until the zone's serial changes or an update is refused.
    """

    kinds: Sequence[type[Object]] = (PublishedName,)

    def __init__(self, host: str, port: int, zone: str, key: KeyReader) -> None:
        self._host = host
        self._port = port
        self._zone = dns.name.from_text(zone)
        self._key = key
        self._known: dict[str, PublishedName] = {}
        self._looking = asyncio.Lock()
        self._serial: int | None = None
        """Of what is known; None: it must be read again."""

    async def list(self, kind: type[K]) -> Sequence[K]:
        assert kind is PublishedName, "names are all that is kept here"
        async with self._looking:
            if self._serial is None or self._serial != await self._current_serial():
                await self._look()
        return cast(Sequence[K], list(self._known.values()))

    async def read(self, kind: type[K], name: str) -> K:
        """What is known of a name; the server itself compares before it writes."""
        async with self._looking:  # of many who have to look again one does
            if self._serial is None:
                await self._look()
        found = self._known.get(name) if kind is PublishedName else None
        if found is None:
            raise NotFound(Status(404, "NotFound", f"{name} is not there"))
        return cast(K, found)

    async def _look(self) -> None:
        zone = await self._transferred()
        self._known = {found.name: found for found in parse_published_names(_content(zone))}
        self._serial = zone.get_soa().serial

    async def create(self, obj: K) -> K:
        name = _published(obj)
        update = self._update()
        owner, mark = _owner(name), _mark(name)
        update.absent(owner)
        update.absent(mark, dns.rdatatype.TXT)
        self._add(update, owner, name)
        update.add(mark, owner_record(name.metadata))
        await self._send(update)
        self._known[name.name] = name
        return obj

    async def update(self, obj: K) -> K:
        name = _published(obj)
        standing = self._known[name.name]
        update = self._unchanged(standing)
        owner, mark = _owner(name), _mark(name)
        for kept in standing.spec.records:
            update.delete(owner, kept.type)
        self._add(update, owner, name)
        update.replace(mark, owner_record(name.metadata))
        await self._send(update)
        self._known[name.name] = name
        return obj

    async def delete(self, obj: K) -> None:
        name = _published(obj)
        standing = self._known[name.name]
        update = self._unchanged(standing)
        for kept in standing.spec.records:
            update.delete(_owner(name), kept.type)
        update.delete(_mark(name), dns.rdatatype.TXT)
        await self._send(update)
        self._known.pop(name.name, None)

    def _unchanged(self, standing: PublishedName) -> dns.update.UpdateMessage:
        """An update that is refused unless a name and its mark are as they were seen."""
        update = self._update()
        owner = _owner(standing)
        by_type = {records.type: records for records in standing.spec.records}
        for rtype in PUBLISHED_TYPES:
            if rtype in by_type:
                update.present(owner, _rdataset(by_type[rtype], ttl=0))  # RFC 2136, 2.4.2
            else:
                update.absent(owner, rtype)
        update.present(_mark(standing), owner_record(standing.metadata))
        return update

    def _add(self, update: dns.update.UpdateMessage, owner: dns.name.Name, obj: Object) -> None:
        assert isinstance(obj, PublishedName), "names are all that is kept here"
        for records in obj.spec.records:
            update.add(owner, _rdataset(records, records.ttl))

    def _update(self) -> dns.update.UpdateMessage:
        update = dns.update.UpdateMessage(self._zone)
        key = self._key()
        if key is not None:
            update.use_tsig(key)
        return update

    async def _send(self, update: dns.update.UpdateMessage) -> None:
        try:
            answer = await self._asked(update)
            if answer.rcode() != dns.rcode.NOERROR:
                raise self._refused(answer.rcode())
        except KubeError:
            self._serial = None  # whatever it was, the next look is a thorough one
            raise

    async def _current_serial(self) -> int:
        query = dns.message.make_query(self._zone, dns.rdatatype.SOA)
        key = self._key()
        if key is not None:
            query.use_tsig(key)
        answer = await self._asked(query)
        soa = answer.get_rrset(answer.answer, self._zone, dns.rdataclass.IN, dns.rdatatype.SOA)
        if soa is None:
            raise self._refused(answer.rcode() or dns.rcode.NOTAUTH)
        return int(soa[0].serial)

    async def _asked(self, query: dns.message.Message) -> dns.message.Message:
        with self._told_apart():
            async with asyncio.timeout(PATIENCE):  # dnspython's own can swallow a cancellation
                return await dns.asyncquery.tcp(query, self._host, port=self._port)

    async def _transferred(self) -> dns.zone.Zone:
        zone = dns.zone.Zone(self._zone, relativize=False)
        query, _ = dns.xfr.make_query(zone)
        key = self._key()
        if key is not None:
            query.use_tsig(key)
        with self._told_apart():
            async with asyncio.timeout(LONGEST_TRANSFER):
                await dns.asyncquery.inbound_xfr(self._host, zone, query, port=self._port)
        return zone

    @contextmanager
    def _told_apart(self) -> Iterator[None]:
        """Errors of the network as the engine knows them: ours to mend, or to be waited for."""
        try:
            yield
        except dns.xfr.TransferError as error:
            raise self._refused(error.rcode) from None
        except (dns.tsig.PeerError, dns.tsig.BadSignature, dns.tsig.BadTime) as error:
            raise BadCredentials(f"{self} does not accept our key: {_said(error)}") from None
        except dns.exception.FormError as error:
            if "TSIG" in str(error):  # dnspython has no class of its own for it
                raise self._refused(dns.rcode.NOTAUTH) from None
            raise Unreachable(f"{self} answers nonsense: {_said(error)}") from None
        except (dns.exception.DNSException, OSError, EOFError) as error:
            raise Unreachable(f"{self} does not answer: {_said(error)}") from None

    def _refused(self, rcode: int) -> KubeError:
        """What a server's code means to the engine."""
        code = dns.rcode.Rcode.make(rcode)
        variant, why = _REFUSALS.get(code, (ServerError, "it could not do it"))
        words = f"{self} answers {dns.rcode.to_text(code)}: {why}"
        return variant(Status(0, dns.rcode.to_text(code), words))

    def __str__(self) -> str:
        return f"name server {self._host}:{self._port} of {self._zone.to_text(True)}"


_MAY = "let our key transfer and update the zone"
_REFUSALS: Mapping[dns.rcode.Rcode, tuple[type[ApiError], str]] = {
    dns.rcode.YXDOMAIN: (AlreadyExists, "the name is in use"),
    dns.rcode.YXRRSET: (AlreadyExists, "the name has records that were not there"),
    dns.rcode.NXDOMAIN: (Conflict, "the name is gone"),
    dns.rcode.NXRRSET: (Conflict, "the name was changed by somebody else"),
    dns.rcode.REFUSED: (Forbidden, _MAY),
    dns.rcode.NOTAUTH: (Forbidden, f"it does not serve the zone, or {_MAY}"),
    dns.rcode.NOTZONE: (Invalid, "the name is not in the zone"),
    dns.rcode.FORMERR: (Invalid, "it does not understand the update"),
    dns.rcode.NOTIMP: (Forbidden, "it takes no updates"),
}


def _content(zone: dns.zone.Zone) -> Iterable[tuple[str, dns.rdataset.Rdataset]]:
    for name, node in zone.nodes.items():
        if name != zone.origin:
            for rdataset in node:
                yield name.to_text(omit_final_dot=True).lower(), rdataset


def _published(obj: Object) -> PublishedName:
    assert isinstance(obj, PublishedName), "names are all that is kept here"
    if is_owner_record(obj.name):
        raise Invalid(Status(0, "Invalid", f"{obj.name} is the name of a mark of ours"))
    return obj


def _owner(name: PublishedName) -> dns.name.Name:
    return dns.name.from_text(name.name)


def _mark(name: PublishedName) -> dns.name.Name:
    try:
        return dns.name.from_text(f"{OWNER_LABEL}.{name.name}")
    except dns.name.NameTooLong:
        raise Invalid(Status(0, "Invalid", f"{name.name} is too long to be marked")) from None


def _rdataset(records: RecordSet, ttl: int) -> dns.rdataset.Rdataset:
    return dns.rdataset.from_text(dns.rdataclass.IN, records.type, ttl, *records.values)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
