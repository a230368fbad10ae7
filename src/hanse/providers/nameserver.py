"""An external name server, written by dynamic updates (RFC 2136) that change only our names.

A name is ours by its owner record, a TXT record at `_hanse.<name>` with the ownership labels and
annotations. Every update has prerequisites on the name and its owner record, so that nothing is
overwritten that somebody else wrote in between.
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
from hanse.features.publishing.tsig_keys import InvalidTsigKey, parse_tsig_key
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

QUERY_TIMEOUT = 5.0
TRANSFER_TIMEOUT = 60.0

KeyReader = Callable[[], dns.tsig.Key | None]
"""Reads the TSIG key; raises `BadCredentials` if it cannot be read."""


def no_key() -> None:
    """The `KeyReader` that returns no TSIG key, for servers that allow updates by address."""


def key_file(path: str) -> KeyReader:
    """A `KeyReader` that reads the file at each call, since it may be replaced."""

    def read() -> dns.tsig.Key:
        """Read and parse the TSIG key file; every failure becomes BadCredentials."""
        try:
            return parse_tsig_key(Path(path).read_text())
        except (OSError, UnicodeDecodeError, InvalidTsigKey) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise BadCredentials(f"key file {path}: {why}") from None

    return read


class NameServer:
    """One zone on one server as an `ExternalSystem`: listed by transfer, written by updates.

    A transfer is kept until the zone's serial changes or an update fails.
    """

    kinds: Sequence[type[Object]] = (PublishedName,)

    def __init__(self, host: str, port: int, zone: str, key: KeyReader) -> None:
        """Nothing is transferred yet; `key` reads the TSIG key for each message."""
        self._host = host
        self._port = port
        self._zone = dns.name.from_text(zone)
        self._key = key
        self._known: dict[str, PublishedName] = {}
        self._transfer_lock = asyncio.Lock()
        self._serial: int | None = None
        """The serial of the last transfer; None: transfer again."""

    async def list(self, kind: type[K]) -> Sequence[K]:
        """All names of the zone but its origin, also those of others, which have no owner record.

        Queries the SOA serial, and transfers the zone only if that differs from the last transfer's
        or an update has failed since. Raises `KubeError`.
        """
        assert kind is PublishedName, "names are all that is kept here"
        async with self._transfer_lock:
            if self._serial is None or self._serial != await self._current_serial():
                await self._transfer()
        return cast(Sequence[K], list(self._known.values()))

    async def read(self, kind: type[K], name: str) -> K:
        """A name as last transferred, or written by us since; raises `NotFound`.

        Transfers only if nothing was transferred yet or an update has failed since; the
        prerequisites of an update protect what changed otherwise.
        """
        async with self._transfer_lock:  # one of many waiting readers transfers
            if self._serial is None:
                await self._transfer()
        found = self._known.get(name) if kind is PublishedName else None
        if found is None:
            raise NotFound(Status(404, "NotFound", f"{name} is not there"))
        return cast(K, found)

    async def _transfer(self) -> None:
        """Transfer the zone, and keep its names and its serial for `list` and `read`."""
        zone = await self._transfer_zone()
        self._known = {found.name: found for found in parse_published_names(_rdatasets(zone))}
        self._serial = zone.get_soa().serial

    async def create(self, obj: K) -> K:
        """Add a name's records and owner TXT by DNS UPDATE; raises AlreadyExists if either exists.

        Returns the object as it is given; `read` knows it without another transfer.
        """
        name = _require_published_name(obj)
        update = self._new_update()
        domain, owner_domain = _dns_name(name), _owner_domain(name)
        update.absent(domain)
        update.absent(owner_domain, dns.rdatatype.TXT)
        self._add_records(update, domain, name)
        update.add(owner_domain, owner_record(name.metadata))
        await self._send_update(update)
        self._known[name.name] = name
        return obj

    async def update(self, obj: K) -> K:
        """Replace a name's records and owner TXT by DNS UPDATE if they are still as last known.

        Raises Conflict or AlreadyExists if not, also for a name that the zone did not have.
        Returns the object as it is given; `read` knows it without a transfer.
        """
        name = _require_published_name(obj)
        observed = self._require_known(name, Conflict)
        update = self._conditional_update(observed)
        domain, owner_domain = _dns_name(name), _owner_domain(name)
        for records in observed.spec.records:
            update.delete(domain, records.type)
        self._add_records(update, domain, name)
        update.replace(owner_domain, owner_record(name.metadata))
        await self._send_update(update)
        self._known[name.name] = name
        return obj

    async def delete(self, obj: K) -> None:
        """Delete a name's records and owner TXT by DNS UPDATE, and forget the name.

        Raises Conflict or AlreadyExists if they are not as last known, NotFound if it had none.
        """
        name = _require_published_name(obj)
        observed = self._require_known(name, NotFound)
        update = self._conditional_update(observed)
        for records in observed.spec.records:
            update.delete(_dns_name(name), records.type)
        update.delete(_owner_domain(name), dns.rdatatype.TXT)
        await self._send_update(update)
        self._known.pop(name.name, None)

    def _require_known(self, name: PublishedName, missing: type[ApiError]) -> PublishedName:
        """A name as last known; raises `missing` if the zone did not have it when last read."""
        if (known := self._known.get(name.name)) is None:
            raise missing(Status(0, "NXDOMAIN", f"{self} has no name {name.name} any more"))
        return known

    def _conditional_update(self, observed: PublishedName) -> dns.update.UpdateMessage:
        """An update that requires a name and its owner record to be as observed.

        TTLs, and records of types not in PUBLISHED_TYPES, do not count. It changes nothing yet; the
        caller adds that.
        """
        update = self._new_update()
        domain = _dns_name(observed)
        by_type = {records.type: records for records in observed.spec.records}
        for rtype in PUBLISHED_TYPES:
            if rtype in by_type:
                update.present(domain, _rdataset(by_type[rtype], ttl=0))  # RFC 2136, 2.4.2
            else:
                update.absent(domain, rtype)
        update.present(_owner_domain(observed), owner_record(observed.metadata))
        return update

    def _add_records(
        self, update: dns.update.UpdateMessage, domain: dns.name.Name, obj: Object
    ) -> None:
        """Add the record sets of a name to an update; its owner TXT is not among them."""
        assert isinstance(obj, PublishedName), "names are all that is kept here"
        for records in obj.spec.records:
            update.add(domain, _rdataset(records, records.ttl))

    def _new_update(self) -> dns.update.UpdateMessage:
        """An empty DNS UPDATE of the zone, signed with TSIG if there is a key.

        Raises `BadCredentials` if the key cannot be read.
        """
        update = dns.update.UpdateMessage(self._zone)
        key = self._key()
        if key is not None:
            update.use_tsig(key)
        return update

    async def _send_update(self, update: dns.update.UpdateMessage) -> None:
        """Send a DNS UPDATE; on failure raise the typed error, and forget the serial.

        The next `list` or `read` transfers the zone then.
        """
        try:
            answer = await self._send_query(update)
            if answer.rcode() != dns.rcode.NOERROR:
                raise self._rcode_error(answer.rcode())
        except KubeError:
            self._serial = None  # the zone may differ from the last transfer
            raise

    async def _current_serial(self) -> int:
        """Query the zone's SOA serial, signed if there is a key.

        Raises the error of the rcode if the answer holds no SOA.
        """
        query = dns.message.make_query(self._zone, dns.rdatatype.SOA)
        key = self._key()
        if key is not None:
            query.use_tsig(key)
        answer = await self._send_query(query)
        soa = answer.get_rrset(answer.answer, self._zone, dns.rdataclass.IN, dns.rdatatype.SOA)
        if soa is None:
            raise self._rcode_error(answer.rcode() or dns.rcode.NOTAUTH)
        return int(soa[0].serial)

    async def _send_query(self, query: dns.message.Message) -> dns.message.Message:
        """Send a query over TCP within QUERY_TIMEOUT; raises the errors of `_typed_errors`."""
        with self._typed_errors():
            async with asyncio.timeout(QUERY_TIMEOUT):  # dnspython's own can swallow a cancellation
                return await dns.asyncquery.tcp(query, self._host, port=self._port)

    async def _transfer_zone(self) -> dns.zone.Zone:
        """The whole zone, by AXFR; raises the errors of `_typed_errors`."""
        zone = dns.zone.Zone(self._zone, relativize=False)
        query, _ = dns.xfr.make_query(zone)
        key = self._key()
        if key is not None:
            query.use_tsig(key)
        with self._typed_errors():
            async with asyncio.timeout(TRANSFER_TIMEOUT):
                await dns.asyncquery.inbound_xfr(self._host, zone, query, port=self._port)
        return zone

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        """Convert the errors of dnspython and the network to those of `hanse.kube.errors`.

        That is `BadCredentials` if our key is not accepted, the error of a refused transfer's
        rcode, and else `Unreachable`.
        """
        try:
            yield
        except dns.xfr.TransferError as error:
            raise self._rcode_error(error.rcode) from None
        except (dns.tsig.PeerError, dns.tsig.BadSignature, dns.tsig.BadTime) as error:
            raise BadCredentials(f"{self} does not accept our key: {_error_text(error)}") from None
        except dns.exception.FormError as error:
            if "TSIG" in str(error):  # dnspython has no class of its own for it
                raise self._rcode_error(dns.rcode.NOTAUTH) from None
            raise Unreachable(f"{self} answers nonsense: {_error_text(error)}") from None
        except (dns.exception.DNSException, OSError, EOFError) as error:
            raise Unreachable(f"{self} does not answer: {_error_text(error)}") from None

    def _rcode_error(self, rcode: int) -> KubeError:
        """The typed error of a response code, to be raised; `ServerError` for unexpected ones."""
        code = dns.rcode.Rcode.make(rcode)
        variant, why = _RCODE_ERRORS.get(code, (ServerError, "it could not do it"))
        message = f"{self} answers {dns.rcode.to_text(code)}: {why}"
        return variant(Status(0, dns.rcode.to_text(code), message))

    def __str__(self) -> str:
        """`name server host:port of zone`."""
        return f"name server {self._host}:{self._port} of {self._zone.to_text(True)}"


_REMEDY = "let our key transfer and update the zone"
_RCODE_ERRORS: Mapping[dns.rcode.Rcode, tuple[type[ApiError], str]] = {
    dns.rcode.YXDOMAIN: (AlreadyExists, "the name is in use"),
    dns.rcode.YXRRSET: (AlreadyExists, "the name has records that were not there"),
    dns.rcode.NXDOMAIN: (Conflict, "the name is gone"),
    dns.rcode.NXRRSET: (Conflict, "the name was changed by somebody else"),
    dns.rcode.REFUSED: (Forbidden, _REMEDY),
    dns.rcode.NOTAUTH: (Forbidden, f"it does not serve the zone, or {_REMEDY}"),
    dns.rcode.NOTZONE: (Invalid, "the name is not in the zone"),
    dns.rcode.FORMERR: (Invalid, "it does not understand the update"),
    dns.rcode.NOTIMP: (Forbidden, "it takes no updates"),
}


def _rdatasets(zone: dns.zone.Zone) -> Iterable[tuple[str, dns.rdataset.Rdataset]]:
    """Every name (lower case) and record set of a zone, except those of its origin."""
    for name, node in zone.nodes.items():
        if name != zone.origin:
            for rdataset in node:
                yield name.to_text(omit_final_dot=True).lower(), rdataset


def _require_published_name(obj: Object) -> PublishedName:
    """The object as a PublishedName; raises Invalid for a name that owner records use."""
    assert isinstance(obj, PublishedName), "names are all that is kept here"
    if is_owner_record(obj.name):
        raise Invalid(Status(0, "Invalid", f"{obj.name} is the name of a mark of ours"))
    return obj


def _dns_name(name: PublishedName) -> dns.name.Name:
    """The object's name as an absolute DNS name."""
    return dns.name.from_text(name.name)


def _owner_domain(name: PublishedName) -> dns.name.Name:
    """The name of the TXT record that marks a name as ours; raises `Invalid` if it is too long."""
    try:
        return dns.name.from_text(f"{OWNER_LABEL}.{name.name}")
    except dns.name.NameTooLong:
        raise Invalid(Status(0, "Invalid", f"{name.name} is too long to be marked")) from None


def _rdataset(records: RecordSet, ttl: int) -> dns.rdataset.Rdataset:
    """The record set with this TTL instead of its own, in the form of dnspython."""
    return dns.rdataset.from_text(dns.rdataclass.IN, records.type, ttl, *records.values)


def _error_text(error: BaseException) -> str:
    """The error's message, or the name of its type if that is empty."""
    return str(error) or type(error).__name__
