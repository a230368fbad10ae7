"""Whether a policy that is gone was deleted by somebody, and not by something else."""

from datetime import timedelta
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.policies.content import KINDS
from hanse.features.policies.ledger import LocalState, PolicyRecord, decode_record, record_key
from hanse.features.policies.member_view import MemberView, definition_name
from hanse.features.policies.options import PolicyOptions
from hanse.model.facts import Answer
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, ClusterObjectRef, ObjectRef
from hanse.model.ownership import ALLOW_MASS_DELETION
from hanse.model.plan import Question, Read
from hanse.model.questions import fresh_read_questions, fresh_values, live_uid
from hanse.model.snapshot import Snapshot

RECHECK_INTERVAL = timedelta(seconds=5)


class Deleted(Struct, frozen=True):
    """Somebody deleted it."""


class RemovedWithParent(Struct, frozen=True):
    """It went with its namespace or with its kind: nobody decided against it."""


class Undetermined(Struct, frozen=True):
    """It has to be asked for, or waited for."""

    questions: tuple[Question, ...] = ()


class Held(Struct, frozen=True):
    """Too much is gone at once to be taken for deletions without a person's word."""

    message: str


DisappearanceCause: TypeAlias = Deleted | RemovedWithParent | Undetermined | Held


def classify_disappearance(
    view: MemberView, here: LocalState, options: PolicyOptions, snapshot: Snapshot
) -> DisappearanceCause:
    """What became of a policy that stood in a member; if one is seen there, it is another."""
    if view.joining:
        return Undetermined()
    suspicion = _mass_deletion_message(view.member, options, snapshot)
    if suspicion:
        return Held(suspicion)
    reads = [Read(place, since=f"{here.uid} was gone") for place in _refs_to_read(view)]
    known = fresh_values(reads, snapshot)
    if known is None:
        return Undetermined(fresh_read_questions(reads))
    policy, definition, *homes = known
    seen_there = view.policy.metadata.uid if view.policy is not None else ""
    if policy is not None and policy["metadata"]["uid"] != seen_there:
        return Undetermined()  # the watch is about to tell
    if live_uid(definition) != here.definition:
        return RemovedWithParent()
    if any(live_uid(home) != here.home for home in homes):
        return RemovedWithParent()
    return Deleted()


def confirm_parents(
    view: MemberView, here: LocalState, snapshot: Snapshot
) -> LocalState | Undetermined:
    """The same, with the namespace and the definition that a standing policy is of.

    Watches may lag behind each other, so it may have been acknowledged as of those before. What is
    read live after others of their name are known is of those: what went took its policies along.
    """
    policy, known = view.policy, (view.home, view.definition)
    if policy is None or policy.metadata.uid != here.uid or not all(known):
        return here
    if (here.home, here.definition) == known:
        return here
    read = Read(view.place, since=" and ".join(known))
    answer = snapshot.fact(Answer, read.id)
    if answer is None or live_uid(answer.value) != here.uid:
        return Undetermined(fresh_read_questions([read]))
    return replace(here, home=view.home, definition=view.definition)


def _refs_to_read(view: MemberView) -> tuple[ClusterObjectRef, ...]:
    definition = ObjectRef(CustomResourceDefinition.kind, definition_name(view.key))
    places = (view.place, ClusterObjectRef(view.member, definition))
    if not view.key.namespace:
        return places
    return (*places, ClusterObjectRef(view.member, ObjectRef(Namespace.kind, view.key.namespace)))


def _mass_deletion_message(member: ClusterId, options: PolicyOptions, snapshot: Snapshot) -> str:
    """Why so much being gone is suspicious; empty if it is not."""
    home = snapshot.get(member, Namespace, SYSTEM)
    lifted = home.metadata.annotations.get(ALLOW_MASS_DELETION, "") if home is not None else ""
    if {"policies", "*"} & {one.strip() for one in lifted.split(",")}:
        return ""
    stood = vanished = 0
    for told in snapshot.all(member, ConfigMap):
        record, key = decode_record(told), record_key(told)
        if not isinstance(record, PolicyRecord) or key is None or key.topic not in KINDS:
            continue
        if record.here.phase == "Applied" and record.here.exists:
            stood += 1
            vanished += snapshot.get(member, KINDS[key.topic], key.name, key.namespace) is None
    if vanished <= max(options.vanished, options.share * stood):
        return ""
    return (
        f"{vanished} of {stood} policies are gone at once; annotate namespace {SYSTEM} with "
        f"{ALLOW_MASS_DELETION}=policies if they were deleted on purpose"
    )
