"""The ledger of a member: ConfigMaps with a record per policy and a page about the ledger."""

from functools import lru_cache
from hashlib import blake2b
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from hanse.features.policies.content import KINDS, LEDGER_PREFIX
from hanse.features.policies.versions import EMPTY_HISTORY, Dot, History
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import LEDGER_RECORD, SYSTEM
from hanse.model.naming import unique_name
from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId, Meta
from hanse.model.plan import Key, parse_key

LEDGER_LABEL = LEDGER_RECORD
POLICIES = "policies"
VERSION_ANNOTATION = f"{LEDGER_PREFIX}version"
RESOLVE_ANNOTATION = f"{LEDGER_PREFIX}resolve"

SCHEMA = 1
T = TypeVar("T")
PAGE_TOPIC = "ledger"
PAGE_NAME = "policies-ledger"
_POLICY = "policy"
_RECORD = "record"
_SUMMARY = "summary"
_MAX_NAME_LENGTH = 200

Phase = Literal["Pending", "Applied", "Blocked", "Quarantined", "Released"]
Reason = Literal[
    "",
    "Refused",
    "Forbidden",
    "PlainPolicy",
    "NamespaceMissing",
    "NotServed",
    "Held",
    "Stale",
    "Unknown",
    "Returned",
    "Flapping",
]


class LocalState(Struct, frozen=True, omit_defaults=True):
    """The state of a policy in the member whose ledger has the record."""

    phase: Phase = "Pending"
    reason: Reason = ""
    message: str = ""
    dot: Dot | None = None
    """The version that exists here, as last acknowledged."""
    digest: str = ""
    """The digest of its content when it was acknowledged, including admission's changes."""
    uid: str = ""
    generation: int = 0
    """Its generation when it was acknowledged, or after a write that is under way."""
    seen: int = 0
    """Its resourceVersion when it was acknowledged: an older one is a stale read."""
    former: str = ""
    """The uid of a policy that was removed together with its namespace or definition."""
    home: str = ""
    """The uid of its namespace."""
    definition: str = ""
    """The uid of its kind's definition."""
    target: Dot | None = None
    """The version to be written here."""
    since: str = ""
    """When the policy was released, for the retention of its tombstone."""

    @property
    def exists(self) -> bool:
        """Whether the record has the uid of a policy that exists here."""
        return bool(self.uid)


class SupersededContent(Struct, frozen=True):
    """Content that was overwritten after the member was restored to an earlier state."""

    digest: str
    spec: dict[str, object]
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PolicyRecord(Struct, frozen=True):
    """The record of one policy in the ledger of one member."""

    history: History = EMPTY_HISTORY
    here: LocalState = LocalState()
    actor: str = ""
    """The actor id under which this record counts its own events."""
    kept: SupersededContent | None = None
    stay: int = 1
    """The stay of the member in which the record was last written."""
    schema: int = SCHEMA


class LedgerPage(Struct, frozen=True):
    """The page of a complete ledger: its member's identity, stays, and collected tombstones."""

    cluster: str
    """The uid of the member's kube-system namespace: it tells apart clusters of the same id."""
    stay: int = 1
    """The number of this stay in the federation."""
    members: dict[ClusterId, int] = {}
    """The current stays of the other members, as far as they are known."""
    left: dict[ClusterId, int] = {}
    """The last stays of members that left: ledgers from such a stay do not count."""
    collected: dict[str, dict[str, int]] = {}
    """The context of each policy whose tombstone was collected, the most recent last."""
    schema: int = SCHEMA


class UnreadableRecord(Struct, frozen=True):
    """A record in a newer schema than ours: it must not be changed."""

    reason: str


class MissingRecord(Struct, frozen=True):
    """No record, or one that cannot be decoded."""


def record_name(key: Key) -> str:
    """The name of a policy's record, the same in every member: `TOPIC.NAMESPACE.NAME`.

    Without a namespace `TOPIC.NAME`; a name longer than 200 characters is shortened with a hash.
    """
    name = ".".join(part for part in (key.topic, key.namespace, key.name) if part)
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    return unique_name(key.topic, key.namespace, key.name, most=_MAX_NAME_LENGTH)


def record_config_map(key: Key, record: PolicyRecord) -> ConfigMap:
    """The ConfigMap of a record: its policy, the encoded record, and a summary for people."""
    winner = record.history.winner
    summary = f"{winner.state if winner else 'Forgotten'}, {record.here.phase} here"
    if record.here.reason:
        summary = f"{summary}: {record.here.reason}"
    return _config_map(
        record_name(key),
        {_POLICY: str(key), _RECORD: _encode(record), _SUMMARY: summary},
    )


def page_config_map(member: ClusterId, page: LedgerPage) -> ConfigMap:
    """The ConfigMap `policies-ledger` with a member's page as JSON, in the system namespace."""
    return _config_map(
        PAGE_NAME,
        {_POLICY: str(Key(PAGE_TOPIC, member)), _RECORD: _encode(page), _SUMMARY: "whole"},
    )


def record_key(config_map: ConfigMap) -> Key | None:
    """The key of a record's policy, or of a page's member; None for any other ConfigMap.

    None, too, if the ConfigMap does not have the name that belongs to the key.
    """
    key = parse_key(config_map.data.get(_POLICY, ""))
    if key is None:
        return None
    if key.topic == PAGE_TOPIC:
        return key if config_map.metadata.name == PAGE_NAME else None
    known = key.topic in KINDS and config_map.metadata.name == record_name(key)
    return key if known else None


def decode_record(config_map: ConfigMap | None) -> PolicyRecord | UnreadableRecord | MissingRecord:
    """The record in a ConfigMap; missing for None or bad data, unreadable for a newer schema."""
    if config_map is None:
        return MissingRecord()
    return _decode_record(config_map.data.get(_RECORD, ""))


def decode_page(config_map: ConfigMap | None) -> LedgerPage | UnreadableRecord | MissingRecord:
    """The page in a ConfigMap; missing for None or bad data, unreadable for a newer schema."""
    if config_map is None:
        return MissingRecord()
    return _decode_page(config_map.data.get(_RECORD, ""))


def new_actor_id(member: ClusterId, *parts: object) -> str:
    """An actor id `MEMBER~HASH`: the hash of `parts`, which make it different from earlier ids."""
    encoded = "\n".join(str(part) for part in parts).encode()
    return f"{member}~{blake2b(encoded, digest_size=5).hexdigest()}"


def version_annotation(key: Key, dot: Dot, digest: str) -> dict[str, str]:
    """The annotation that marks a policy with its version, digest and a checksum of its key."""
    return {VERSION_ANNOTATION: f"{dot} {digest} {_key_checksum(key)}"}


class VersionMark(Struct, frozen=True):
    """The version that a policy is annotated with, and its digest at that time."""

    dot: Dot
    digest: str


def parse_version_annotation(key: Key, annotations: dict[str, str]) -> VersionMark | None:
    """The version in a policy's annotations, with its digest.

    None if missing, malformed, or copied from another policy.
    """
    fields = annotations.get(VERSION_ANNOTATION, "").split(" ")
    if len(fields) != 3 or fields[2] != _key_checksum(key):
        return None
    actor, _, text = fields[0].rpartition(":")
    count = parse_number(text)
    return VersionMark(Dot(actor, count), fields[1]) if actor and count is not None else None


def _key_checksum(key: Key) -> str:
    """A short hash of a policy's key, to detect an annotation copied from another policy."""
    return blake2b(str(key).encode(), digest_size=4).hexdigest()


def _config_map(name: str, data: dict[str, str]) -> ConfigMap:
    """A ConfigMap of this name in the system namespace, with the label of ledgers."""
    return ConfigMap(
        metadata=Meta(name=name, namespace=SYSTEM, labels={LEDGER_LABEL: POLICIES}), data=data
    )


def _encode(record: PolicyRecord | LedgerPage) -> str:
    """The record or page as JSON."""
    return msgspec.json.encode(record).decode()


class _Schema(Struct):
    schema: int = SCHEMA


@lru_cache(maxsize=16384)
def _decode_record(text: str) -> PolicyRecord | UnreadableRecord | MissingRecord:
    """The record in a text, cached; unreadable if its schema is newer, missing if invalid."""
    return _decode(text, PolicyRecord)


@lru_cache(maxsize=256)
def _decode_page(text: str) -> LedgerPage | UnreadableRecord | MissingRecord:
    """The page in a text, cached; unreadable if its schema is newer, missing if invalid."""
    return _decode(text, LedgerPage)


def _decode(text: str, kind: type[T]) -> T | UnreadableRecord | MissingRecord:
    """The record; unreadable if its schema is newer, missing if it does not decode."""
    try:
        if decode_json(text, type=_Schema).schema > SCHEMA:
            return UnreadableRecord("it was written by a newer version of Hanse")
        return decode_json(text, type=kind)
    except msgspec.DecodeError:
        return MissingRecord()
