"""What people want to know of every replicated policy, read from the ledgers; pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from hanse.features.policies.ledger import (
    PAGE_TOPIC,
    Record,
    Unreadable,
    key_in,
    record_in,
)
from hanse.features.policies.versions import Entry, merge_all
from hanse.model.keys import Key
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterId, Wire

TROUBLED = ("Blocked", "Quarantined")


class Standing(Struct, frozen=True, omit_defaults=True):
    """How a policy stands in one member."""

    phase: str
    reason: str = ""
    message: str = ""

    @property
    def is_trouble(self) -> bool:
        """Whether somebody should look at it; a namespace that is not there is no trouble."""
        return self.reason == "Held" or (
            self.phase in TROUBLED and self.reason != "NamespaceMissing"
        )


class Overruled(Struct, frozen=True):
    """A version that lost against another and is kept."""

    cluster: ClusterId
    state: str
    spec: Wire


class PolicySeen(Struct, frozen=True):
    """One policy over all members."""

    kind: str
    namespace: str
    name: str
    state: str
    """Present, Deleted or Orphaned, or Forgotten where nobody remembers more."""
    origin: ClusterId
    """Where the version that counts was made."""
    members: dict[ClusterId, Standing]
    overruled: tuple[Overruled, ...] = ()

    @property
    def is_trouble(self) -> bool:
        return bool(self.overruled) or any(m.is_trouble for m in self.members.values())

    @property
    def label(self) -> str:
        """What people call it on the command line."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


def key_called(label: str) -> Key | None:
    """The policy that somebody means by `acnp/NAME` or `anp/NAMESPACE/NAME`."""
    match label.split("/"):
        case ["acnp", name] if name:
            return Key("acnp", name)
        case ["anp", namespace, name] if namespace and name:
            return Key("anp", name, namespace)
        case _:
            return None


def overview(ledgers: Mapping[ClusterId, Iterable[ConfigMap]]) -> list[PolicySeen]:
    """Every policy that some ledger knows, tombstones aside that everybody agrees on."""
    found: dict[Key, dict[ClusterId, Record | Unreadable]] = {}
    for cluster, records in ledgers.items():
        for told in records:
            key, record = key_in(told), record_in(told)
            if key is None or key.topic == PAGE_TOPIC:
                continue
            if isinstance(record, Record | Unreadable):
                found.setdefault(key, {})[cluster] = record
    seen = [_seen(key, found[key], sorted(ledgers)) for key in sorted(found)]
    return [one for one in seen if one.state == "Present" or one.is_trouble]


def _seen(
    key: Key, records: Mapping[ClusterId, Record | Unreadable], clusters: Iterable[ClusterId]
) -> PolicySeen:
    history = merge_all(r.history for r in records.values() if isinstance(r, Record))
    winner = history.winner
    return PolicySeen(
        key.topic,
        key.namespace,
        key.name,
        winner.state if winner is not None else "Forgotten",
        winner.dot.cluster if winner is not None else "",
        {c: _standing(records.get(c)) for c in clusters},
        tuple(_overruled(entry) for entry in history.overruled),
    )


def _standing(record: Record | Unreadable | None) -> Standing:
    match record:
        case Record():
            here = record.here
            return Standing(here.phase, here.reason, here.message)
        case Unreadable(why):
            return Standing("Unreadable", "", why)
        case None:
            return Standing("Unknown")


def _overruled(entry: Entry) -> Overruled:
    return Overruled(entry.dot.cluster, entry.state, entry.content.spec)
