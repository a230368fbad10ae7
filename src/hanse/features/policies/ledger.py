"""The ledger of a member: one record for each policy, and one page about the ledger itself."""

from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec import Struct

from hanse.features.policies.content import KINDS, LEDGER_PREFIX
from hanse.features.policies.versions import EMPTY_HISTORY, Dot, History
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import unique
from hanse.model.objects import ClusterId, Meta
from hanse.model.plan import Key, parse_key

LEDGER_LABEL = "ledger.hanse.dev/of"
POLICIES = "policies"
VERSION_ANNOTATION = f"{LEDGER_PREFIX}version"
RESOLVE_ANNOTATION = f"{LEDGER_PREFIX}resolve"

SCHEMA = 1
PAGE_TOPIC = "ledger"
PAGE_NAME = "policies-ledger"
_POLICY = "policy"
_RECORD = "record"
_SUMMARY = "summary"
_LONGEST_NAME = 200

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
    """What of a policy stands in the member that the record is for."""

    phase: Phase = "Pending"
    reason: Reason = ""
    message: str = ""
    dot: Dot | None = None
    """The version that stands here, as far as it was acknowledged."""
    digest: str = ""
    """What it said when it was acknowledged, admission's additions included."""
    uid: str = ""
    generation: int = 0
    """The generation it had, or is given by a write that is under way."""
    seen: int = 0
    """The resourceVersion it had: whoever sees an older one looks at the past."""
    former: str = ""
    """The uid of what stood in a namespace, or was of a definition, that went: it went too."""
    home: str = ""
    """The uid of its namespace."""
    definition: str = ""
    """The uid of its kind's definition."""
    target: Dot | None = None
    """The version that is to stand here."""
    since: str = ""
    """When the policy was found to be over, for its tombstone's retention."""

    @property
    def exists(self) -> bool:
        """Whether some version of the policy stands here."""
        return bool(self.uid)


class SupersededContent(Struct, frozen=True):
    """What stood here and gave way without anybody's word, after the member went back in time."""

    digest: str
    spec: dict[str, object]
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PolicyRecord(Struct, frozen=True):
    """One policy in the ledger of one member."""

    history: History = EMPTY_HISTORY
    here: LocalState = LocalState()
    actor: str = ""
    """The name this record counts its own events under."""
    kept: SupersededContent | None = None
    stay: int = 1
    """Which of its member's stays in the federation it was last written in."""
    schema: int = SCHEMA


class LedgerPage(Struct, frozen=True):
    """The ledger itself: its member has taken everything in, and remembers what was collected."""

    cluster: str
    """The uid of the member's kube-system namespace: another cluster of the same id is another."""
    stay: int = 1
    """Which of its stays in the federation this is."""
    members: dict[ClusterId, int] = {}
    """The stays of the other members, as far as they are known."""
    left: dict[ClusterId, int] = {}
    """The last stays of members that left: a ledger of such a stay is from another time."""
    collected: dict[str, dict[str, int]] = {}
    """The context of each policy whose tombstone was collected, the latest last."""
    schema: int = SCHEMA


class UnreadableRecord(Struct, frozen=True):
    """A record that is not ours to change: it is newer than we are."""

    why: str


class MissingRecord(Struct, frozen=True):
    """No record, or one that somebody spoilt."""


def record_name(key: Key) -> str:
    """The name of a policy's record, the same in every member."""
    told = ".".join(part for part in (key.topic, key.namespace, key.name) if part)
    if len(told) <= _LONGEST_NAME:
        return told
    return unique(key.topic, key.namespace, key.name, most=_LONGEST_NAME)


def record_config_map(key: Key, record: PolicyRecord) -> ConfigMap:
    """The record as it is written."""
    winner = record.history.winner
    summary = f"{winner.state if winner else 'Forgotten'}, {record.here.phase} here"
    if record.here.reason:
        summary = f"{summary}: {record.here.reason}"
    return _written(
        record_name(key),
        {_POLICY: str(key), _RECORD: _told(record), _SUMMARY: summary},
    )


def page_config_map(member: ClusterId, page: LedgerPage) -> ConfigMap:
    """The page as it is written."""
    return _written(
        PAGE_NAME, {_POLICY: str(Key(PAGE_TOPIC, member)), _RECORD: _told(page), _SUMMARY: "whole"}
    )


def record_key(config_map: ConfigMap) -> Key | None:
    """Which policy a record is about, or which member a page."""
    key = parse_key(config_map.data.get(_POLICY, ""))
    if key is None:
        return None
    if key.topic == PAGE_TOPIC:
        return key if config_map.metadata.name == PAGE_NAME else None
    known = key.topic in KINDS and config_map.metadata.name == record_name(key)
    return key if known else None


def decode_record(config_map: ConfigMap | None) -> PolicyRecord | UnreadableRecord | MissingRecord:
    """What a record says."""
    if config_map is None:
        return MissingRecord()
    return _read(config_map.data.get(_RECORD, ""), PolicyRecord)


def decode_page(config_map: ConfigMap | None) -> LedgerPage | UnreadableRecord | MissingRecord:
    """What a page says."""
    if config_map is None:
        return MissingRecord()
    return _read_page(config_map.data.get(_RECORD, ""))


def new_actor_id(member: ClusterId, *what: object) -> str:
    """A name to count under that nobody has used: it is made of the first thing counted."""
    told = "\n".join(str(one) for one in what).encode()
    return f"{member}~{blake2b(told, digest_size=5).hexdigest()}"


def version_annotation(key: Key, dot: Dot, digest: str) -> dict[str, str]:
    """The annotation that says which version a policy is, so that it is never taken for new."""
    return {VERSION_ANNOTATION: f"{dot} {digest} {_seal(key)}"}


class VersionMark(Struct, frozen=True):
    """Which version a policy says it is, and what it said then."""

    dot: Dot
    digest: str


def parse_version_annotation(key: Key, annotations: dict[str, str]) -> VersionMark | None:
    """The version that a policy carries; a mark from a policy of another name is none."""
    told = annotations.get(VERSION_ANNOTATION, "").split(" ")
    if len(told) != 3 or told[2] != _seal(key):
        return None
    actor, _, count = told[0].rpartition(":")
    return VersionMark(Dot(actor, int(count)), told[1]) if actor and count.isdecimal() else None


def _seal(key: Key) -> str:
    return blake2b(str(key).encode(), digest_size=4).hexdigest()


def _written(name: str, data: dict[str, str]) -> ConfigMap:
    return ConfigMap(
        metadata=Meta(name=name, namespace=SYSTEM, labels={LEDGER_LABEL: POLICIES}), data=data
    )


def _told(record: PolicyRecord | LedgerPage) -> str:
    return msgspec.json.encode(record).decode()


class _Schema(Struct):
    schema: int = SCHEMA


@lru_cache(maxsize=16384)
def _read(text: str, kind: type[PolicyRecord]) -> PolicyRecord | UnreadableRecord | MissingRecord:
    try:
        if msgspec.json.decode(text, type=_Schema).schema > SCHEMA:
            return UnreadableRecord("it was written by a newer version of Hanse")
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return MissingRecord()


@lru_cache(maxsize=256)
def _read_page(text: str) -> LedgerPage | UnreadableRecord | MissingRecord:
    try:
        if msgspec.json.decode(text, type=_Schema).schema > SCHEMA:
            return UnreadableRecord("it was written by a newer version of Hanse")
        return msgspec.json.decode(text, type=LedgerPage)
    except msgspec.DecodeError:
        return MissingRecord()
