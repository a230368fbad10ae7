"""Names on somebody else's name server, as if they were objects."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value


class RecordSet(Value, frozen=True, kw_only=True):
    """All records of one type, as zone files write them, in order."""

    type: str
    ttl: int = 0
    values: tuple[str, ...] = ()


class PublishedNameSpec(Value, frozen=True, kw_only=True):
    """What the name has, of the types that we publish."""

    records: tuple[RecordSet, ...] = ()


class PublishedName(Object, frozen=True, kw_only=True):
    """One domain name, by which it is called, without its final dot."""

    kind: ClassVar[Kind] = Kind(
        "outside.hanse.dev", "v1", "PublishedName", "publishednames", namespaced=False
    )

    spec: PublishedNameSpec = PublishedNameSpec()
