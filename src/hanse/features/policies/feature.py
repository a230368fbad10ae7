"""The feature: what it watches, what wakes which policy, and one plan for all led members."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.policies import deletion
from hanse.features.policies.content import (
    CLUSTER_WIDE,
    KINDS,
    NAMESPACED,
    Policy,
    is_federated,
    policy_key,
)
from hanse.features.policies.decision import Decision, decide
from hanse.features.policies.events import record_events
from hanse.features.policies.ledger import (
    LEDGER_LABEL,
    PAGE_TOPIC,
    POLICIES,
    LedgerPage,
    MissingRecord,
    PolicyRecord,
    UnreadableRecord,
    decode_page,
    decode_record,
    record_config_map,
    record_key,
    record_name,
)
from hanse.features.policies.ledger_page import is_history_collected, plan_page
from hanse.features.policies.member_view import (
    Ledgers,
    MemberView,
    build_member_view,
    definition_name,
    is_fully_synced,
    is_led_by_us,
    list_leaving_members,
    list_members,
    merged_history,
    read_ledger_pages,
    read_page,
    read_record,
)
from hanse.features.policies.observation import (
    Disappeared,
    Observation,
    RecordDraft,
    StaleRead,
    observe,
)
from hanse.features.policies.options import PolicyOptions
from hanse.features.policies.versions import History
from hanse.model.facts import (
    ClusterDeparted,
    ClusterState,
    KindServed,
    Leadership,
    Role,
    WriteOutcome,
)
from hanse.model.kinds.antrea import AntreaNetworkPolicy, ClusterNetworkPolicy
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from hanse.model.plan import Desired, EventRequest, Key, Patch, Plan, Question, Removal
from hanse.model.snapshot import (
    Change,
    FactChange,
    Index,
    ObjectChange,
    Snapshot,
    Watch,
    Writes,
)

RECORDS = f"{LEDGER_LABEL}={POLICIES}"
_DEFINITIONS = {definition_name(Key(topic)): topic for topic in KINDS}


def _namespace_told(told: ConfigMap) -> Iterable[str]:
    key = record_key(told)
    return [key.namespace] if key is not None and key.namespace else []


BY_NAMESPACE = Index(ConfigMap, "policies-namespace", _namespace_told)


class _Share(Struct, frozen=True):
    """What one member's part of a plan is."""

    desired: tuple[Desired, ...] = ()
    step: Decision | None = None
    events: tuple[EventRequest, ...] = ()
    questions: tuple[Question, ...] = ()
    requeue_after: timedelta | None = None


class Policies:
    """Antrea policies made, changed and deleted in any member, the same in all."""

    name = "policies"
    watches: tuple[Watch, ...] = (
        Watch(
            Role.MEMBER,
            ConfigMap,
            namespace=SYSTEM,
            labels=RECORDS,
            indexes=(BY_NAMESPACE,),
            writes=Writes.OBJECTS,
        ),
        Watch(Role.LED, ClusterNetworkPolicy, writes=Writes.OBJECTS),
        Watch(Role.LED, AntreaNetworkPolicy, writes=Writes.OBJECTS),
        Watch(Role.LED, Namespace),
        Watch(Role.LED, CustomResourceDefinition),
    )

    def __init__(self, options: PolicyOptions = PolicyOptions()) -> None:  # noqa: B008 - frozen
        self._options = options

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        match change:
            case ObjectChange(_, before, after):
                match change.object:
                    case ClusterNetworkPolicy() | AntreaNetworkPolicy() as policy:
                        return [policy_key(policy), *_unjoined(snapshot)]
                    case ConfigMap():
                        told = [o for o in (before, after) if isinstance(o, ConfigMap)]
                        return _woken_by_record(told, snapshot)
                    case Namespace() as home if home.metadata.name == SYSTEM:
                        return _all_keys(snapshot)
                    case Namespace() as home:
                        return _keys_in(home.metadata.name, snapshot)
                    case CustomResourceDefinition() as defined:
                        topic = _DEFINITIONS.get(defined.metadata.name)
                        return [k for k in _all_keys(snapshot) if k.topic == topic]
                    case _:
                        return ()
            case FactChange():
                return _woken_by_fact(change, snapshot)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        if key.topic == PAGE_TOPIC:
            return plan_page(key.name, self._options, snapshot)
        ledgers = read_ledger_pages(snapshot)
        known = merged_history(key, ledgers, snapshot)
        led = [m for m in ledgers.members if is_led_by_us(m, snapshot)]
        shares = [self._share(key, m, ledgers, known, snapshot) for m in led]
        kept = [
            d for m in list_leaving_members(snapshot) for d in _kept_while_leaving(key, m, snapshot)
        ]
        writes = [w for s in shares if s.step is not None for w in s.step.writes]
        made = [w for w in writes if isinstance(w, Desired)]
        waits = [s.requeue_after for s in shares if s.requeue_after is not None]
        return Plan(
            (*kept, *(d for s in shares for d in s.desired), *made),
            removals=tuple(w for w in writes if isinstance(w, Removal)),
            patches=tuple(w for w in writes if isinstance(w, Patch)),
            questions=tuple(q for s in shares for q in s.questions),
            events=tuple(n for s in shares for n in s.events),
            requeue_after=min(waits, default=None),
        )

    def _share(
        self, key: Key, member: ClusterId, ledgers: Ledgers, known: History, snapshot: Snapshot
    ) -> _Share:
        """What is to be done in one member that we lead."""
        standing = _Share(_standing(key, member, snapshot))
        if not is_fully_synced(member, KINDS[key.topic], snapshot):
            return standing
        own = read_record(key, member, ledgers, snapshot)
        view = build_member_view(key, member, ledgers, snapshot)
        policy = view.policy
        if isinstance(own, UnreadableRecord):
            return standing
        if policy is not None and policy.metadata.deletion_timestamp is not None:
            return standing
        observation = observe(view, own, known, self._options.flips)
        return self._answer(view, own, observation, ledgers, snapshot)

    def _answer(
        self,
        view: MemberView,
        own: PolicyRecord | MissingRecord,
        observation: Observation,
        ledgers: Ledgers,
        snapshot: Snapshot,
    ) -> _Share:
        standing = _standing(view.key, view.member, snapshot)
        match observation:
            case StaleRead():
                return _Share(standing, requeue_after=deletion.RECHECK_INTERVAL)
            case RecordDraft():
                return _settled(view, own, observation, ledgers, snapshot)
            case Disappeared(if_deleted, if_not):
                assert isinstance(own, PolicyRecord), "what was never recorded cannot vanish"
                match deletion.classify_disappearance(view, own.here, self._options, snapshot):
                    case deletion.Deleted():
                        return _share_of(view, own, if_deleted, ledgers, snapshot)
                    case deletion.RemovedWithParent():
                        return _share_of(view, own, if_not, ledgers, snapshot)
                    case deletion.Held(message):
                        return _held(view, own, message)
                    case deletion.Undetermined(questions):
                        wait = deletion.RECHECK_INTERVAL
                        return _Share(standing, questions=questions, requeue_after=wait)


def _settled(
    view: MemberView,
    own: PolicyRecord | MissingRecord,
    draft: RecordDraft,
    ledgers: Ledgers,
    snapshot: Snapshot,
) -> _Share:
    """What is to be done about a policy once it is known where it stands; nothing waits for it."""
    match deletion.confirm_parents(view, draft.here, snapshot):
        case deletion.Undetermined(questions):
            share = _share_of(view, own, draft, ledgers, snapshot)
            return replace(share, questions=questions, requeue_after=deletion.RECHECK_INTERVAL)
        case here:
            return _share_of(view, own, replace(draft, here=here), ledgers, snapshot)


def _share_of(
    view: MemberView,
    own: PolicyRecord | MissingRecord,
    draft: RecordDraft,
    ledgers: Ledgers,
    snapshot: Snapshot,
) -> _Share:
    outcome = snapshot.fact(WriteOutcome, view.place)
    step = decide(view, own, draft, outcome, snapshot.now)
    if not _is_needed(view, own, step.record, ledgers):
        return _Share()
    desired = _desired(view, step.record)
    return _Share((desired,), step, record_events(view, own, step.record))


def _held(view: MemberView, own: PolicyRecord, message: str) -> _Share:
    known = own.here if own.here.reason == "Held" else None
    here = known or replace(own.here, reason="Held", message=message)
    record = replace(own, here=here)
    return _Share(
        (_desired(view, record),),
        events=record_events(view, own, record),
        requeue_after=deletion.RECHECK_INTERVAL * 6,
    )


def _desired(view: MemberView, record: PolicyRecord) -> Desired:
    written = record_config_map(view.key, replace(record, stay=view.stay))
    return Desired(written, view.member, as_leader_of=view.member, takes_over=True)


def _is_needed(
    view: MemberView, own: PolicyRecord | MissingRecord, record: PolicyRecord, ledgers: Ledgers
) -> bool:
    """Whether a record says anything that nobody else remembers."""
    winner = record.history.winner
    if record.here.phase != "Released" or (winner is not None and winner.state == "Present"):
        return True
    if is_history_collected(view.member, view.key, record.history, ledgers):
        return False
    return isinstance(own, PolicyRecord) or winner is not None


def _standing(key: Key, member: ClusterId, snapshot: Snapshot) -> tuple[Desired, ...]:
    """The record as it is: what cannot be decided now is left alone."""
    found = snapshot.get(member, ConfigMap, record_name(key), SYSTEM)
    if found is None:
        return ()
    return (Desired(found, member, as_leader_of=member, takes_over=True),)


def _kept_while_leaving(key: Key, member: ClusterId, snapshot: Snapshot) -> tuple[Desired, ...]:
    """Records go after the page, so that nobody takes their absence for anything else."""
    if read_page(member, snapshot) is None or not is_led_by_us(member, snapshot):
        return ()
    return _standing(key, member, snapshot)


def _woken_by_record(told: list[ConfigMap], snapshot: Snapshot) -> Iterator[Key]:
    keys = {key for one in told if (key := record_key(one)) is not None}
    pages = {key for key in keys if key.topic == PAGE_TOPIC}
    yield from keys
    if not keys:
        return
    if pages:
        yield from _woken_by_page(told, snapshot)
    elif any(_is_over(one) for one in told):
        yield from (Key(PAGE_TOPIC, m) for m in list_members(snapshot) if is_led_by_us(m, snapshot))
    else:
        yield from _unjoined(snapshot)


def _woken_by_page(told: list[ConfigMap], snapshot: Snapshot) -> Iterator[Key]:
    pages = [page for one in told if isinstance(page := decode_page(one), LedgerPage)]
    if len(pages) < 2 or len({(p.cluster, p.stay, str(p.left)) for p in pages}) > 1:
        yield from _all_keys(snapshot)  # whose records count is another thing now
        return
    before, after = (page.collected for page in pages)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        topic, namespace, policy = name.split("/", 2)
        yield Key(topic, policy, namespace)
    yield from (Key(PAGE_TOPIC, m) for m in list_members(snapshot) if is_led_by_us(m, snapshot))


def _is_over(told: ConfigMap) -> bool:
    record = decode_record(told)
    return isinstance(record, PolicyRecord) and record.here.phase == "Released"


def _unjoined(snapshot: Snapshot) -> Iterator[Key]:
    """The pages of members that are still taking things in."""
    led = [member for member in list_members(snapshot) if is_led_by_us(member, snapshot)]
    ledgers = read_ledger_pages(snapshot) if led else None
    for member in led:
        if ledgers is not None and not ledgers.has_joined(member, snapshot):
            yield Key(PAGE_TOPIC, member)


def _woken_by_fact(change: FactChange, snapshot: Snapshot) -> Iterable[Key]:
    match change.fact:
        case ClusterState() | ClusterDeparted() | Leadership():
            return _all_keys(snapshot)
        case KindServed(_, kind) if any(kind == k.kind for k in KINDS.values()):
            return _all_keys(snapshot)
        case WriteOutcome(place):
            ref = place.ref
            topics = {CLUSTER_WIDE, NAMESPACED} if ref.kind.group == "crd.antrea.io" else set()
            return [Key(t, ref.name, ref.namespace) for t in topics if KINDS[t].kind == ref.kind]
        case _:
            return ()


def _keys_in(namespace: str, snapshot: Snapshot) -> Iterable[Key]:
    """The policies of a namespace that some ledger knows."""
    found = (
        told for m in list_members(snapshot) for told in snapshot.by(m, BY_NAMESPACE, namespace)
    )
    return {key for told in found if (key := record_key(told)) is not None}


def _all_keys(snapshot: Snapshot) -> list[Key]:
    keys = {Key(PAGE_TOPIC, m) for m in list_members(snapshot) if is_led_by_us(m, snapshot)}
    for member in (*list_members(snapshot), *list_leaving_members(snapshot)):
        for told in snapshot.all(member, ConfigMap):
            key = record_key(told)
            if key is not None:
                keys.add(key)
        for kind in KINDS.values():
            keys.update(policy_key(p) for p in _federated(member, kind, snapshot))
    return sorted(keys)


def _federated(member: ClusterId, kind: type[Policy], snapshot: Snapshot) -> Iterator[Policy]:
    return (policy for policy in snapshot.all(member, kind) if is_federated(policy))
