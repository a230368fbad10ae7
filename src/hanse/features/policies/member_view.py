"""What is seen of one policy in one member, and whether it can be relied on."""

from msgspec import Struct

from hanse.features.policies.content import KINDS, Policy
from hanse.features.policies.ledger import (
    PAGE_NAME,
    LedgerPage,
    MissingRecord,
    PolicyRecord,
    UnreadableRecord,
    decode_page,
    decode_record,
    record_name,
)
from hanse.features.policies.versions import EMPTY_HISTORY, History, merge_all
from hanse.model.facts import ClusterState, KindServed, Leadership, Phase, Role
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, ObjectRef
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot

NO_UID = ""


class MemberView(Struct, frozen=True):
    """One policy in one member, seen whole."""

    key: Key
    member: ClusterId
    policy: Policy | None
    served: bool
    home: str
    """The uid of its namespace, `cluster` for a policy of the whole cluster; empty: none."""
    definition: str
    """The uid of its kind's definition; empty where there is none, or it is going."""
    joining: bool
    """Whether the member has yet to take in what others know."""
    alone: bool
    """Whether there is no other member."""
    joins_others: bool
    """Whether some other member's ledger is whole already."""
    known_events: History
    """Which events were ever heard of: a name that others counted under further is not used."""
    stay: int = 1
    """Which of its stays in the federation the member is in."""

    @property
    def place(self) -> ClusterObjectRef:
        """Where the policy stands or would stand."""
        kind = KINDS[self.key.topic].kind
        return ClusterObjectRef(self.member, ObjectRef(kind, self.key.name, self.key.namespace))

    @property
    def record_ref(self) -> ClusterObjectRef:
        """Where its record is."""
        return ClusterObjectRef(
            self.member, ObjectRef(ConfigMap.kind, record_name(self.key), SYSTEM)
        )


def list_members(snapshot: Snapshot) -> tuple[ClusterId, ...]:
    """The members of the federation, reachable or not, those that are leaving aside."""
    return tuple(
        s.cluster
        for s in sorted(snapshot.facts(ClusterState), key=lambda s: s.cluster)
        if Role.MEMBER in s.roles and not is_leaving(s)
    )


def list_leaving_members(snapshot: Snapshot) -> tuple[ClusterId, ...]:
    """The members that we are on our way out of."""
    return tuple(
        s.cluster for s in snapshot.facts(ClusterState) if Role.MEMBER in s.roles and is_leaving(s)
    )


def is_leaving(state: ClusterState) -> bool:
    """Whether nothing is wanted in a cluster any more."""
    return state.leaving


def is_led_by_us(member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether the member is ours to write to."""
    lead = snapshot.fact(Leadership, member)
    state = snapshot.fact(ClusterState, member)
    return lead is not None and lead.ours and state is not None and Role.LED in state.roles


def is_fully_synced(member: ClusterId, kind: type[Object], snapshot: Snapshot) -> bool:
    """Whether everything is known of a member that decisions about a kind there rest on."""
    state = snapshot.fact(ClusterState, member)
    if state is None or state.phase is not Phase.SYNCED or state.recovering:
        return False
    needed = (ConfigMap, Namespace, CustomResourceDefinition)
    if not all(snapshot.listed(member, one) for one in needed) or _has_unread_ledgers(snapshot):
        return False
    return snapshot.listed(member, kind) or not _is_served(member, kind, snapshot)


def _has_unread_ledgers(snapshot: Snapshot) -> bool:
    """Whether some ledger is about to be read for the first time; dead ones are not waited for.

    It may say that what this member's ledger says is of another time.
    """
    return any(
        state.phase is Phase.CONNECTING
        and Role.MEMBER in state.roles
        and not snapshot.listed(state.cluster, ConfigMap)
        for state in snapshot.facts(ClusterState)
    )


def build_member_view(
    key: Key, member: ClusterId, ledgers: "Ledgers", snapshot: Snapshot
) -> MemberView:
    """What is seen of a policy in a member that is whole."""
    kind = KINDS[key.topic]
    others = [m for m in ledgers.members if m != member]
    return MemberView(
        key,
        member,
        snapshot.get(member, kind, key.name, key.namespace),
        _is_served(member, kind, snapshot),
        namespace_uid(key, member, snapshot),
        definition_uid(key, member, snapshot),
        joining=not ledgers.has_joined(member, snapshot),
        alone=not others,
        joins_others=any(ledgers.has_joined(m, snapshot) for m in others),
        known_events=known_events(key, ledgers, snapshot),
        stay=ledgers.current_stay(member, snapshot),
    )


def namespace_uid(key: Key, member: ClusterId, snapshot: Snapshot) -> str:
    """The uid of a policy's namespace that is there and stays."""
    if not key.namespace:
        return "cluster"
    home = snapshot.get(member, Namespace, key.namespace)
    return _uid_of(home)


def definition_uid(key: Key, member: ClusterId, snapshot: Snapshot) -> str:
    """The uid of the definition of a policy's kind that is there and stays."""
    return _uid_of(snapshot.get(member, CustomResourceDefinition, definition_name(key)))


def definition_name(key: Key) -> str:
    """The name of the definition of a policy's kind."""
    return KINDS[key.topic].kind.definition


class Ledgers(Struct, frozen=True):
    """The pages of all members, read once for a plan."""

    members: tuple[ClusterId, ...]
    pages: dict[ClusterId, LedgerPage]
    left: dict[ClusterId, int]
    """The latest stay of each member that others saw the end of."""

    def has_joined(self, member: ClusterId, snapshot: Snapshot) -> bool:
        """Whether a member has taken in what others knew, and has not been away since.

        Only its leader sees whether it is still the same cluster; others take the ledger's word.
        """
        page = self.pages.get(member)
        if page is None or page.stay <= self.left.get(member, 0):
            return False
        identity = cluster_uid(member, snapshot)
        return not identity or page.cluster == identity

    def current_stay(self, member: ClusterId, snapshot: Snapshot) -> int:
        """Which of its stays a member is in; one that joins begins another than it ever told of."""
        page = self.pages.get(member)
        told = page.stay if page is not None else 0
        if self.has_joined(member, snapshot):
            return told
        return max(told, self.left.get(member, 0)) + 1

    def collected(self, member: ClusterId, key: Key) -> History:
        """What a member remembers of a policy whose tombstone it collected."""
        page = self.pages.get(member)
        return History(page.collected.get(str(key), {})) if page is not None else EMPTY_HISTORY


def read_ledger_pages(snapshot: Snapshot) -> Ledgers:
    """What the ledgers of all members say of themselves."""
    members = list_members(snapshot)
    pages = {m: page for m in members if (page := read_page(m, snapshot)) is not None}
    left: dict[ClusterId, int] = {}
    for page in pages.values():
        for other, stay in page.left.items():
            left[other] = max(stay, left.get(other, 0))
    return Ledgers(members, pages, left)


def read_record(
    key: Key, member: ClusterId, ledgers: Ledgers, snapshot: Snapshot
) -> PolicyRecord | UnreadableRecord | MissingRecord:
    """What a member's ledger says of a policy; what is of another stay or cluster is nothing."""
    if member in ledgers.pages and not ledgers.has_joined(member, snapshot):
        return MissingRecord()
    return decode_record(snapshot.get(member, ConfigMap, record_name(key), SYSTEM))


def merged_history(key: Key, ledgers: Ledgers, snapshot: Snapshot) -> History:
    """All that ledgers remember of a policy, and what those say that can be read now.

    A record that was read long ago may be of a policy whose end all but we have forgotten since.
    What was collected stays true, and what a member alone knew is heard when it is back.
    """
    histories: list[History] = []
    for member in ledgers.members:
        histories.append(ledgers.collected(member, key))
        record = read_record(key, member, ledgers, snapshot)
        if isinstance(record, PolicyRecord) and snapshot.synced(member, ConfigMap):
            histories.append(record.history)
    return merge_all(histories)


def known_events(key: Key, ledgers: Ledgers, snapshot: Snapshot) -> History:
    """Which events of a policy any ledger ever told of, reachable now or not."""
    told = (read_record(key, member, ledgers, snapshot) for member in ledgers.members)
    contexts = [History(r.history.context) for r in told if isinstance(r, PolicyRecord)]
    return merge_all([*(ledgers.collected(m, key) for m in ledgers.members), *contexts])


def read_page(member: ClusterId, snapshot: Snapshot) -> LedgerPage | None:
    """What a member's ledger says of itself."""
    found = decode_page(snapshot.get(member, ConfigMap, PAGE_NAME, SYSTEM))
    return found if isinstance(found, LedgerPage) else None


def cluster_uid(member: ClusterId, snapshot: Snapshot) -> str:
    """The uid that a cluster keeps for its life, where it can be seen."""
    return _uid_of(snapshot.get(member, Namespace, "kube-system"))


def _is_served(member: ClusterId, kind: type[Object], snapshot: Snapshot) -> bool:
    served = snapshot.fact(KindServed, (member, kind.kind))
    return served is None or served.served


def _uid_of(obj: Namespace | CustomResourceDefinition | None) -> str:
    if obj is None or obj.metadata.deletion_timestamp is not None:
        return NO_UID
    return obj.metadata.uid
