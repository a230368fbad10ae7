"""The feature: its watches, its keys, and one plan per policy for all members that we lead."""

from collections.abc import Iterable
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.policies import deletion
from hanse.features.policies.content import (
    KINDS,
)
from hanse.features.policies.decision import MemberDecision, decide
from hanse.features.policies.events import record_events
from hanse.features.policies.keys import RECORDS_BY_NAMESPACE, keys_for_change
from hanse.features.policies.ledger import (
    LEDGER_LABEL,
    PAGE_TOPIC,
    POLICIES,
    MissingRecord,
    PolicyRecord,
    UnreadableRecord,
    record_config_map,
    record_name,
)
from hanse.features.policies.ledger_page import is_history_collected, plan_page
from hanse.features.policies.member_view import (
    LedgerPages,
    MemberView,
    build_member_view,
    is_fully_synced,
    is_led_by_us,
    list_leaving_members,
    merged_history,
    read_ledger_pages,
    read_page,
    read_record,
)
from hanse.features.policies.observation import (
    Disappeared,
    Observation,
    StaleRead,
    observe,
)
from hanse.features.policies.options import PolicyOptions
from hanse.features.policies.record_drafts import RecordDraft
from hanse.features.policies.versions import History
from hanse.model.facts import (
    Role,
    WriteOutcome,
)
from hanse.model.kinds.acceptance import DEFAULT_POLICY, AcceptancePolicy
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from hanse.model.plan import Desired, EventRequest, Key, Patch, Plan, Question, Removal, TakeOver
from hanse.model.snapshot import (
    Change,
    Snapshot,
    Watch,
    Writes,
)


class _MemberPlan(Struct, frozen=True):
    """The part of a plan that concerns one member."""

    desired: tuple[Desired, ...] = ()
    decision: MemberDecision | None = None
    events: tuple[EventRequest, ...] = ()
    questions: tuple[Question, ...] = ()
    requeue_after: timedelta | None = None


_COPIED = "federated policies are the same in all members"


class Policies:
    """Keeps federated Antrea policies the same in all members, whichever member users edit."""

    name = "policies"
    watches: tuple[Watch, ...] = (
        Watch(
            Role.MEMBER,
            ConfigMap,
            namespace=SYSTEM,
            labels=f"{LEDGER_LABEL}={POLICIES}",
            indexes=(RECORDS_BY_NAMESPACE,),
            writes=Writes.OBJECTS,
            reason="the ledger that says which version of a policy counts",
        ),
        Watch(Role.LED, AntreaClusterNetworkPolicy, writes=Writes.OBJECTS, reason=_COPIED),
        Watch(Role.LED, AntreaNetworkPolicy, writes=Writes.OBJECTS, reason=_COPIED),
        Watch(Role.LED, Namespace, reason="policies are copied where their namespace is"),
        Watch(
            Role.LED,
            AcceptancePolicy,
            name=DEFAULT_POLICY,
            reason="in which namespaces a member takes policies",
        ),
        Watch(Role.LED, CustomResourceDefinition, reason="whether the cluster serves policies"),
    )

    def __init__(self, options: PolicyOptions = PolicyOptions()) -> None:  # noqa: B008 - frozen
        self._options = options

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The policies and ledger pages whose plans may differ after a change."""
        return keys_for_change(change, snapshot)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of a ledger page, or of a policy in all members that we lead.

        Members that are leaving keep their record until their page is gone. It is planned again
        after the shortest wait of a member.
        """
        if key.topic == PAGE_TOPIC:
            return plan_page(key.name, self._options, snapshot)
        ledgers = read_ledger_pages(snapshot)
        known = merged_history(key, ledgers, snapshot)
        led = [m for m in ledgers.members if is_led_by_us(m, snapshot)]
        member_plans = [self._plan_member(key, m, ledgers, known, snapshot) for m in led]
        kept = [
            desired
            for member in list_leaving_members(snapshot)
            for desired in _record_until_page_is_gone(key, member, snapshot)
        ]
        writes = [w for p in member_plans if p.decision is not None for w in p.decision.writes]
        created = [w for w in writes if isinstance(w, Desired)]
        waits = [p.requeue_after for p in member_plans if p.requeue_after is not None]
        return Plan(
            (*kept, *(d for p in member_plans for d in p.desired), *created),
            removals=tuple(w for w in writes if isinstance(w, Removal)),
            patches=tuple(w for w in writes if isinstance(w, Patch)),
            questions=tuple(q for p in member_plans for q in p.questions),
            events=tuple(e for p in member_plans for e in p.events),
            requeue_after=min(waits, default=None),
        )

    def _plan_member(
        self, key: Key, member: ClusterId, ledgers: LedgerPages, known: History, snapshot: Snapshot
    ) -> _MemberPlan:
        """The plan for a policy in a member we lead: its record, and writes to the policy.

        The record stays as it is if the member is not fully synced, the record has a newer schema,
        or the policy is being deleted; with a requeue, too, while it is not known what happened.
        """
        unchanged = _MemberPlan(_unchanged_record(key, member, snapshot))
        if not is_fully_synced(member, KINDS[key.topic], snapshot):
            return unchanged
        stored = read_record(key, member, ledgers, snapshot)
        view = build_member_view(key, member, ledgers, snapshot)
        policy = view.policy
        if isinstance(stored, UnreadableRecord):
            return unchanged
        if policy is not None and policy.metadata.deletion_timestamp is not None:
            return unchanged
        observation = observe(view, stored, known, self._options.flips)
        return self._plan_observation(view, stored, observation, ledgers, snapshot)

    def _plan_observation(
        self,
        view: MemberView,
        stored: PolicyRecord | MissingRecord,
        observation: Observation,
        ledgers: LedgerPages,
        snapshot: Snapshot,
    ) -> _MemberPlan:
        """The plan for what was observed of a policy, and for one that disappeared by its cause.

        The record stays as it is, and is planned again after RECHECK_INTERVAL, after a stale read
        or while the cause is undetermined, with the questions for it.
        """
        unchanged = _unchanged_record(view.key, view.member, snapshot)
        match observation:
            case StaleRead():
                return _MemberPlan(unchanged, requeue_after=deletion.RECHECK_INTERVAL)
            case RecordDraft():
                return _plan_confirmed(view, stored, observation, ledgers, snapshot)
            case Disappeared(if_deleted, if_not):
                assert isinstance(stored, PolicyRecord), "only a recorded policy can disappear"
                match deletion.classify_disappearance(view, stored.here, self._options, snapshot):
                    case deletion.DeletedByUser():
                        return _plan_draft(view, stored, if_deleted, ledgers, snapshot)
                    case deletion.RemovedWithParent():
                        return _plan_draft(view, stored, if_not, ledgers, snapshot)
                    case deletion.HeldDeletion(message):
                        return _plan_held_deletion(view, stored, message)
                    case deletion.Undetermined(questions):
                        wait = deletion.RECHECK_INTERVAL
                        return _MemberPlan(unchanged, questions=questions, requeue_after=wait)


def _plan_confirmed(
    view: MemberView,
    stored: PolicyRecord | MissingRecord,
    draft: RecordDraft,
    ledgers: LedgerPages,
    snapshot: Snapshot,
) -> _MemberPlan:
    """The plan for a draft, once live reads confirm which namespace and definition it belongs to.

    Until then the plan for the draft as it is, with the questions and a requeue.
    """
    match deletion.confirm_parents(view, draft.here, snapshot):
        case deletion.Undetermined(questions):
            plan = _plan_draft(view, stored, draft, ledgers, snapshot)
            return replace(plan, questions=questions, requeue_after=deletion.RECHECK_INTERVAL)
        case here:
            return _plan_draft(view, stored, replace(draft, here=here), ledgers, snapshot)


def _plan_draft(
    view: MemberView,
    stored: PolicyRecord | MissingRecord,
    draft: RecordDraft,
    ledgers: LedgerPages,
    snapshot: Snapshot,
) -> _MemberPlan:
    """The desired record, writes and Events for a draft.

    Empty if no record is needed: a stored one is deleted then.
    """
    outcome = snapshot.fact(WriteOutcome, view.policy_ref)
    decision = decide(view, stored, draft, outcome, snapshot.now)
    if not _is_record_needed(view, stored, decision.record, ledgers):
        return _MemberPlan()
    desired = _desired_record(view, decision.record)
    return _MemberPlan((desired,), decision, record_events(view, stored, decision.record))


def _plan_held_deletion(view: MemberView, stored: PolicyRecord, message: str) -> _MemberPlan:
    """The plan that keeps a policy in the other members: too many are gone here at once.

    The record gets the reason Held with the message, and Events say so. A record that is held
    already keeps its message, without new Events. Rechecked after six times RECHECK_INTERVAL.
    """
    is_held = stored.here.reason == "Held"
    here = stored.here if is_held else replace(stored.here, reason="Held", message=message)
    record = replace(stored, here=here)
    return _MemberPlan(
        (_desired_record(view, record),),
        events=record_events(view, stored, record),
        requeue_after=deletion.RECHECK_INTERVAL * 6,
    )


def _desired_record(view: MemberView, record: PolicyRecord) -> Desired:
    """The ConfigMap of a record, with its member's current stay, written as the member's leader.

    A foreign ConfigMap of that name is overwritten.
    """
    config_map = record_config_map(view.key, replace(record, stay=view.stay))
    return Desired(config_map, view.member, as_leader_of=view.member, ownership=TakeOver())


def _is_record_needed(
    view: MemberView,
    stored: PolicyRecord | MissingRecord,
    record: PolicyRecord,
    ledgers: LedgerPages,
) -> bool:
    """Whether a record must be stored: before its release, for a Present winner, or for its end.

    The end needs none if the member's page has collected all its events, or if there is no version
    and no record is stored.
    """
    winner = record.history.winner
    if record.here.phase != "Released" or (winner is not None and winner.state == "Present"):
        return True
    if is_history_collected(view.member, view.key, record.history, ledgers):
        return False
    return isinstance(stored, PolicyRecord) or winner is not None


def _unchanged_record(key: Key, member: ClusterId, snapshot: Snapshot) -> tuple[Desired, ...]:
    """The stored record as it is, for a plan that decides nothing about it now; () without one."""
    found = snapshot.get(member, ConfigMap, record_name(key), SYSTEM)
    if found is None:
        return ()
    return (Desired(found, member, as_leader_of=member, ownership=TakeOver()),)


def _record_until_page_is_gone(
    key: Key, member: ClusterId, snapshot: Snapshot
) -> tuple[Desired, ...]:
    """The record in a member that is leaving, which is deleted after the member's page.

    Otherwise other agents would take missing records for deleted policies. None without a page, or
    if we do not lead the member.
    """
    if read_page(member, snapshot) is None or not is_led_by_us(member, snapshot):
        return ()
    return _unchanged_record(key, member, snapshot)
