"""The view of every replicated policy for the CLI and the dashboard, read from the ledgers."""

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
    """The status of a policy in one member."""

    phase: str
    reason: str = ""
    message: str = ""

    @property
    def needs_attention(self) -> bool:
        """Whether it is Blocked, Quarantined or Held; a missing namespace is normal."""
        return self.reason == "Held" or (
            self.phase in TROUBLED_PHASES and self.reason != "NamespaceMissing"
        )


class OverruledVersion(Struct, frozen=True):
    """A version that lost a conflict and is kept in the record."""

    cluster: ClusterId
    state: str
    spec: Wire


class PolicyView(Struct, frozen=True):
    """One policy over all members."""

    kind: str
    namespace: str
    name: str
    state: str
    """Present, Deleted or Orphaned; Forgotten if no ledger has a version of it."""
    origin: ClusterId
    """The cluster in which the winning version was made."""
    members: dict[ClusterId, MemberStatus]
    overruled: tuple[OverruledVersion, ...] = ()

    @property
    def needs_attention(self) -> bool:
        """Whether versions conflict or a member's status needs attention."""
        return bool(self.overruled) or any(m.needs_attention for m in self.members.values())

    @property
    def label(self) -> str:
        """Its name on the command line: `acnp/NAME` or `anp/NAMESPACE/NAME`."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


def parse_policy_label(label: str) -> Key | None:
    """The key for `acnp/NAME` or `anp/NAMESPACE/NAME`; None for anything else."""
    match label.split("/"):
        case ["acnp", name] if name:
            return Key("acnp", name)
        case ["anp", namespace, name] if namespace and name:
            return Key("anp", name, namespace)
        case _:
            return None


def list_shown_policies(ledgers: Mapping[ClusterId, Iterable[ConfigMap]]) -> list[PolicyView]:
    """Every policy in any ledger, by kind, name and namespace, with its status in each cluster.

    One that is not Present is listed only if it needs attention; invalid records are skipped.
    """
    found: dict[Key, dict[ClusterId, PolicyRecord | UnreadableRecord]] = {}
    for cluster, records in ledgers.items():
        for config_map in records:
            key, record = record_key(config_map), decode_record(config_map)
            if key is None or key.topic == PAGE_TOPIC:
                continue
            if isinstance(record, PolicyRecord | UnreadableRecord):
                found.setdefault(key, {})[cluster] = record
    views = [_policy_view(key, found[key], sorted(ledgers)) for key in sorted(found)]
    return [view for view in views if view.state == "Present" or view.needs_attention]


def _policy_view(
    key: Key,
    records: Mapping[ClusterId, PolicyRecord | UnreadableRecord],
    clusters: Iterable[ClusterId],
) -> PolicyView:
    """The view of one policy from its records, with a status for each of `clusters`.

    State, origin and overruled versions follow from the merge of all readable records; the state is
    `Forgotten`, without origin, if none has a version.
    """
    history = merge_all(r.history for r in records.values() if isinstance(r, PolicyRecord))
    winner = history.winner
    return PolicyView(
        key.topic,
        key.namespace,
        key.name,
        winner.state if winner is not None else "Forgotten",
        winner.dot.cluster if winner is not None else "",
        {c: _member_status(records.get(c)) for c in clusters},
        tuple(_overruled_version(entry) for entry in history.overruled),
    )


def _member_status(record: PolicyRecord | UnreadableRecord | None) -> MemberStatus:
    """The status by a record: phase, reason and message.

    `Unreadable` for a newer schema, `Unknown` without a record.
    """
    match record:
        case PolicyRecord():
            here = record.here
            return MemberStatus(here.phase, here.reason, here.message)
        case UnreadableRecord(reason):
            return MemberStatus("Unreadable", "", reason)
        case None:
            return MemberStatus("Unknown")


def _overruled_version(entry: Version) -> OverruledVersion:
    """A losing version for display: its cluster, state and spec."""
    return OverruledVersion(entry.dot.cluster, entry.state, entry.content.spec)
