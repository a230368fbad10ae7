"""What people want to know of every replicated policy, read from the ledgers; pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from hanse.features.policies.ledger import (
    PAGE_TOPIC,
    PolicyRecord,
    UnreadableRecord,
    decode_record,
    record_key,
)
from hanse.features.policies.versions import Version, merge_all
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterId, Wire
from hanse.model.plan import Key

TROUBLED_PHASES = ("Blocked", "Quarantined")


class MemberStatus(Struct, frozen=True, omit_defaults=True):
    """How a policy stands in one member."""

    phase: str
    reason: str = ""
    message: str = ""

    @property
    def needs_attention(self) -> bool:
        """Whether somebody should look at it; a namespace that is not there is no trouble."""
        return self.reason == "Held" or (
            self.phase in TROUBLED_PHASES and self.reason != "NamespaceMissing"
        )


class OverruledVersion(Struct, frozen=True):
    """A version that lost against another and is kept."""

    cluster: ClusterId
    state: str
    spec: Wire


class PolicyView(Struct, frozen=True):
    """One policy over all members."""

    kind: str
    namespace: str
    name: str
    state: str
    """Present, Deleted or Orphaned, or Forgotten where nobody remembers more."""
    origin: ClusterId
    """Where the version that counts was made."""
    members: dict[ClusterId, MemberStatus]
    overruled: tuple[OverruledVersion, ...] = ()

    @property
    def needs_attention(self) -> bool:
        return bool(self.overruled) or any(m.needs_attention for m in self.members.values())

    @property
    def label(self) -> str:
        """What people call it on the command line."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


def parse_policy_label(label: str) -> Key | None:
    """The policy that somebody means by `acnp/NAME` or `anp/NAMESPACE/NAME`."""
    match label.split("/"):
        case ["acnp", name] if name:
            return Key("acnp", name)
        case ["anp", namespace, name] if namespace and name:
            return Key("anp", name, namespace)
        case _:
            return None


def list_policies(ledgers: Mapping[ClusterId, Iterable[ConfigMap]]) -> list[PolicyView]:
    """Every policy that some ledger knows, tombstones aside that everybody agrees on."""
    found: dict[Key, dict[ClusterId, PolicyRecord | UnreadableRecord]] = {}
    for cluster, records in ledgers.items():
        for told in records:
            key, record = record_key(told), decode_record(told)
            if key is None or key.topic == PAGE_TOPIC:
                continue
            if isinstance(record, PolicyRecord | UnreadableRecord):
                found.setdefault(key, {})[cluster] = record
    seen = [_seen(key, found[key], sorted(ledgers)) for key in sorted(found)]
    return [one for one in seen if one.state == "Present" or one.needs_attention]


def _seen(
    key: Key,
    records: Mapping[ClusterId, PolicyRecord | UnreadableRecord],
    clusters: Iterable[ClusterId],
) -> PolicyView:
    history = merge_all(r.history for r in records.values() if isinstance(r, PolicyRecord))
    winner = history.winner
    return PolicyView(
        key.topic,
        key.namespace,
        key.name,
        winner.state if winner is not None else "Forgotten",
        winner.dot.cluster if winner is not None else "",
        {c: _standing(records.get(c)) for c in clusters},
        tuple(_overruled(entry) for entry in history.overruled),
    )


def _standing(record: PolicyRecord | UnreadableRecord | None) -> MemberStatus:
    match record:
        case PolicyRecord():
            here = record.here
            return MemberStatus(here.phase, here.reason, here.message)
        case UnreadableRecord(why):
            return MemberStatus("UnreadableRecord", "", why)
        case None:
            return MemberStatus("Unknown")


def _overruled(entry: Version) -> OverruledVersion:
    return OverruledVersion(entry.dot.cluster, entry.state, entry.content.spec)
