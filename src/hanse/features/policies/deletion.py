"""Whether a policy that is gone was deleted by a user, or removed with its namespace or kind."""

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


class DeletedByUser(Struct, frozen=True):
    """A user deleted the policy."""


class RemovedWithParent(Struct, frozen=True):
    """The policy went with its namespace or its CustomResourceDefinition, which is no deletion."""


class Undetermined(Struct, frozen=True):
    """Live reads, or time, are needed before the cause is known."""

    questions: tuple[Question, ...] = ()


class HeldDeletion(Struct, frozen=True):
    """Too many policies are gone at once: their deletion needs confirmation."""

    message: str


DisappearanceCause: TypeAlias = DeletedByUser | RemovedWithParent | Undetermined | HeldDeletion


def classify_disappearance(
    view: MemberView, here: LocalState, options: PolicyOptions, snapshot: Snapshot
) -> DisappearanceCause:
    """Why a policy that its member has recorded is gone: by a user, or with namespace or kind.

    Held if too many are gone at once. Else live reads tell, by the recorded uids of both:
    Undetermined with questions until they answer, and without any while the member joins, or if a
    read finds a policy that is not observed.
    """
    if view.joining:
        return Undetermined()
    if message := _mass_deletion_message(view.member, options, snapshot):
        return HeldDeletion(message)
    reads = [Read(ref, since=f"{here.uid} was gone") for ref in _refs_to_read(view)]
    results = fresh_values(reads, snapshot)
    if results is None:
        return Undetermined(fresh_read_questions(reads))
    policy, definition, *namespaces = results
    observed_uid = view.policy.metadata.uid if view.policy is not None else ""
    if policy is not None and policy["metadata"]["uid"] != observed_uid:
        return Undetermined()  # the watch has not delivered it yet
    if live_uid(definition) != here.definition:
        return RemovedWithParent()
    if any(live_uid(namespace) != here.home for namespace in namespaces):
        return RemovedWithParent()
    return DeletedByUser()


def confirm_parents(
    view: MemberView, here: LocalState, snapshot: Snapshot
) -> LocalState | Undetermined:
    """The state with the uids of the namespace and definition to which the policy belongs now.

    Unchanged if these are recorded, one is missing, or `here` is not of the observed policy. Else a
    live read has to find the same policy still there; Undetermined, with the question, until it
    does.
    """
    policy, parents = view.policy, (view.namespace_uid, view.definition_uid)
    if policy is None or policy.metadata.uid != here.uid or not all(parents):
        return here
    if (here.home, here.definition) == parents:
        return here
    read = Read(view.policy_ref, since=" and ".join(parents))
    answer = snapshot.fact(Answer, read.id)
    if answer is None or live_uid(answer.value) != here.uid:
        return Undetermined(fresh_read_questions([read]))
    return replace(here, home=view.namespace_uid, definition=view.definition_uid)


def _refs_to_read(view: MemberView) -> tuple[ClusterObjectRef, ...]:
    """The policy, its definition and, unless it is cluster-wide, its namespace, in this order."""
    definition = ObjectRef(CustomResourceDefinition.kind, definition_name(view.key))
    refs = (view.policy_ref, ClusterObjectRef(view.member, definition))
    if not view.key.namespace:
        return refs
    return (*refs, ClusterObjectRef(view.member, ObjectRef(Namespace.kind, view.key.namespace)))


def _mass_deletion_message(member: ClusterId, options: PolicyOptions, snapshot: Snapshot) -> str:
    """The message if more applied policies are gone than both limits, a number and a share, allow.

    Empty if not, and if the mass deletion annotation of the member's system namespace lists
    `policies` or `*`.
    """
    namespace = snapshot.get(member, Namespace, SYSTEM)
    allowed = (
        namespace.metadata.annotations.get(ALLOW_MASS_DELETION, "") if namespace is not None else ""
    )
    if {"policies", "*"} & {item.strip() for item in allowed.split(",")}:
        return ""
    applied = vanished = 0
    for config_map in snapshot.all(member, ConfigMap):
        record, key = decode_record(config_map), record_key(config_map)
        if not isinstance(record, PolicyRecord) or key is None or key.topic not in KINDS:
            continue
        if record.here.phase == "Applied" and record.here.exists:
            applied += 1
            vanished += snapshot.get(member, KINDS[key.topic], key.name, key.namespace) is None
    if vanished <= max(options.vanished, options.share * applied):
        return ""
    return (
        f"{vanished} of {applied} policies are gone at once; annotate namespace {SYSTEM} with "
        f"{ALLOW_MASS_DELETION}=policies if they were deleted on purpose"
    )
