"""The view of one policy in one member, and the ledgers that it is judged by."""

from msgspec import Struct

from hanse.features.policies.content import KINDS, Policy
from hanse.features.policies.ledger import (
    PAGE_NAME,
    LedgerPage,
    LocalState,
    MissingRecord,
    PolicyRecord,
    UnreadableRecord,
    decode_page,
    decode_record,
    record_name,
)
from hanse.features.policies.versions import EMPTY_HISTORY, History, merge_all
from hanse.model.acceptance import Refused, ReplicatedPolicy, accepted, read_policy
from hanse.model.facts import ClusterState, Leadership, Phase, Role
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import IDENTITY_NAMESPACE
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, ObjectRef
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot

NO_UID = ""


class MemberView(Struct, frozen=True):
    """One policy in one member, with all that decisions about it rest on."""

    key: Key
    member: ClusterId
    policy: Policy | None
    served: bool
    namespace_uid: str
    """Of the policy's namespace; `cluster` for a cluster-scoped policy; empty if there is none."""
    definition_uid: str
    """Of its kind's CustomResourceDefinition; empty if there is none, or it is terminating."""
    joining: bool
    """Whether the member's ledger does not contain yet what other members know."""
    alone: bool
    """Whether there is no other member."""
    joins_others: bool
    """Whether another member's ledger is complete already."""
    known_events: History
    """The events that any ledger knows: an actor id that others have seen more of is not reused."""
    stay: int = 1
    """The number of the member's current stay: it grows each time the member joins again."""
    refusal: str = ""
    """Why the member takes no version of others, by its AcceptancePolicy; empty if it does."""

    def has_parents_of(self, here: LocalState) -> bool:
        """Whether namespace and definition have the uids that a policy's recorded state names."""
        return (self.namespace_uid, self.definition_uid) == (here.home, here.definition)

    @property
    def policy_ref(self) -> ClusterObjectRef:
        """The policy's reference, whether it exists or not."""
        kind = KINDS[self.key.topic].kind
        return ClusterObjectRef(self.member, ObjectRef(kind, self.key.name, self.key.namespace))

    @property
    def record_ref(self) -> ClusterObjectRef:
        """The reference of the ConfigMap with the policy's record in the member."""
        return ClusterObjectRef(
            self.member, ObjectRef(ConfigMap.kind, record_name(self.key), SYSTEM)
        )


def list_members(snapshot: Snapshot) -> tuple[ClusterId, ...]:
    """The members of the federation, sorted, reachable or not, without those that are leaving."""
    return tuple(
        s.cluster
        for s in sorted(snapshot.facts(ClusterState), key=lambda s: s.cluster)
        if Role.MEMBER in s.roles and not s.leaving
    )


def list_leaving_members(snapshot: Snapshot) -> tuple[ClusterId, ...]:
    """The members that are being removed from the federation."""
    return tuple(
        s.cluster for s in snapshot.facts(ClusterState) if Role.MEMBER in s.roles and s.leaving
    )


def is_led_by_us(member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether we hold a member's leader Lease and are connected to it with the role LED.

    Only then may we write to it. False for members without either fact.
    """
    lead = snapshot.fact(Leadership, member)
    state = snapshot.fact(ClusterState, member)
    return lead is not None and lead.ours and state is not None and Role.LED in state.roles


def is_fully_synced(member: ClusterId, kind: type[Object], snapshot: Snapshot) -> bool:
    """Whether everything is known that decisions about a kind of policy in a member need.

    The member is synced and not recovering; ConfigMaps, Namespaces and CRDs are listed there, the
    kind and AcceptancePolicies too or not served; and no other member is connecting with an unread
    ledger.
    """
    state = snapshot.fact(ClusterState, member)
    if state is None or state.phase is not Phase.SYNCED or state.recovering:
        return False
    needed = (ConfigMap, Namespace, CustomResourceDefinition)
    if not all(snapshot.listed(member, each) for each in needed) or _has_unread_ledgers(snapshot):
        return False
    return all(snapshot.listed_or_unserved(member, each) for each in (kind, AcceptancePolicy))


def _has_unread_ledgers(snapshot: Snapshot) -> bool:
    """Whether a member is connecting and its ledger was never listed.

    Unreachable ones do not count.
    """
    return any(
        state.phase is Phase.CONNECTING
        and Role.MEMBER in state.roles
        and not snapshot.listed(state.cluster, ConfigMap)
        for state in snapshot.facts(ClusterState)
    )


def build_member_view(
    key: Key, member: ClusterId, ledgers: "LedgerPages", snapshot: Snapshot
) -> MemberView:
    """All that decisions about a policy in a member need, read from the snapshot."""
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
        refusal=_refusal(key, member, snapshot),
    )


def _refusal(key: Key, member: ClusterId, snapshot: Snapshot) -> str:
    """Why a member's AcceptancePolicy refuses a policy's namespace; empty if it does not.

    Empty, too, for a cluster-wide policy, and while the AcceptancePolicy is not known.
    """
    policy = read_policy(member, snapshot)
    if policy is None:
        return ""
    judged = accepted(policy, ReplicatedPolicy(key.namespace), member)
    return str(judged) if isinstance(judged, Refused) else ""


def namespace_uid(key: Key, member: ClusterId, snapshot: Snapshot) -> str:
    """The uid of a policy's namespace; empty if that is missing or terminating.

    `cluster` for a cluster-wide policy.
    """
    if not key.namespace:
        return "cluster"
    return _live_uid(snapshot.get(member, Namespace, key.namespace))


def definition_uid(key: Key, member: ClusterId, snapshot: Snapshot) -> str:
    """The uid of the definition of a policy's kind; empty if it is missing or terminating."""
    return _live_uid(snapshot.get(member, CustomResourceDefinition, definition_name(key)))


def definition_name(key: Key) -> str:
    """The name of the CustomResourceDefinition of a policy's kind."""
    return KINDS[key.topic].kind.definition


class LedgerPages(Struct, frozen=True):
    """The ledger pages of all members, read once per plan."""

    members: tuple[ClusterId, ...]
    pages: dict[ClusterId, LedgerPage]
    ended_stays: dict[ClusterId, int]
    """The latest stay of each member that has ended according to any page."""

    def has_joined(self, member: ClusterId, snapshot: Snapshot) -> bool:
        """Whether a member has a ledger page of its current stay, written by the same cluster.

        If the uid of the cluster is not known here, the page is trusted.
        """
        page = self.pages.get(member)
        if page is None or page.stay <= self.ended_stays.get(member, 0):
            return False
        identity = cluster_uid(member, snapshot)
        return not identity or page.cluster == identity

    def current_stay(self, member: ClusterId, snapshot: Snapshot) -> int:
        """The number of a member's present stay in the federation, which counts its joins.

        For a member that is joining, one more than its page or any other has recorded.
        """
        page = self.pages.get(member)
        recorded = page.stay if page is not None else 0
        if self.has_joined(member, snapshot):
            return recorded
        return max(recorded, self.ended_stays.get(member, 0)) + 1

    def collected(self, member: ClusterId, key: Key) -> History:
        """The events of a policy that a member's page has collected, as a history without versions.

        An empty history if there are none.
        """
        page = self.pages.get(member)
        return History(page.collected.get(str(key), {})) if page is not None else EMPTY_HISTORY


def read_ledger_pages(snapshot: Snapshot) -> LedgerPages:
    """The ledger pages of all members that are not leaving, from ConfigMaps of the snapshot.

    With the latest ended stay of each member that any of these pages names.
    """
    members = list_members(snapshot)
    pages = {m: page for m in members if (page := read_page(m, snapshot)) is not None}
    ended: dict[ClusterId, int] = {}
    for page in pages.values():
        for other, stay in page.left.items():
            ended[other] = max(stay, ended.get(other, 0))
    return LedgerPages(members, pages, ended)


def read_record(
    key: Key, member: ClusterId, ledgers: LedgerPages, snapshot: Snapshot
) -> PolicyRecord | UnreadableRecord | MissingRecord:
    """A member's record of a policy, as last seen; unreadable if its schema is newer than ours.

    Missing if there is none, it does not decode, or its ledger's page is from another stay or
    cluster; a record beside which there is no page counts.
    """
    if member in ledgers.pages and not ledgers.has_joined(member, snapshot):
        return MissingRecord()
    return decode_record(snapshot.get(member, ConfigMap, record_name(key), SYSTEM))


def merged_history(key: Key, ledgers: LedgerPages, snapshot: Snapshot) -> History:
    """The merged history of a policy over all pages, and over the records of synced members.

    The record of an unreachable member may be of a policy whose tombstone all others have collected
    since, so it counts again only when the member is back. Collected contexts never become wrong.
    """
    histories: list[History] = []
    for member in ledgers.members:
        histories.append(ledgers.collected(member, key))
        record = read_record(key, member, ledgers, snapshot)
        if isinstance(record, PolicyRecord) and snapshot.synced(member, ConfigMap):
            histories.append(record.history)
    return merge_all(histories)


def known_events(key: Key, ledgers: LedgerPages, snapshot: Snapshot) -> History:
    """All events of a policy that any member's ledger knows, without their versions.

    Counts collected tombstones, and the last seen records of unreachable members, which
    `merged_history` leaves out.
    """
    records = (read_record(key, member, ledgers, snapshot) for member in ledgers.members)
    contexts = [History(r.history.context) for r in records if isinstance(r, PolicyRecord)]
    return merge_all([*(ledgers.collected(m, key) for m in ledgers.members), *contexts])


def read_page(member: ClusterId, snapshot: Snapshot) -> LedgerPage | None:
    """A member's ledger page; None if it is missing, invalid, or of a newer schema."""
    found = decode_page(snapshot.get(member, ConfigMap, PAGE_NAME, SYSTEM))
    return found if isinstance(found, LedgerPage) else None


def cluster_uid(member: ClusterId, snapshot: Snapshot) -> str:
    """The uid of a cluster's kube-system namespace, which identifies it; empty if unknown."""
    return _live_uid(snapshot.get(member, Namespace, IDENTITY_NAMESPACE))


def _is_served(member: ClusterId, kind: type[Object], snapshot: Snapshot) -> bool:
    """Whether a member serves a kind; True while that is unknown."""
    return snapshot.serves(member, kind) is not False


def _live_uid(obj: Namespace | CustomResourceDefinition | None) -> str:
    """The uid of an object; empty if it is missing or terminating."""
    if obj is None or obj.metadata.deletion_timestamp is not None:
        return NO_UID
    return obj.metadata.uid
