"""Whether objects that the leader lacks were deleted, or removed with their namespace or kind.

Deleting the namespace or a CustomResourceDefinition in the leader's cluster, by mistake or to
uninstall, must not delete the configuration of all followers: copies exist for that case.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TypeAlias

from msgspec import Struct

from hanse.features.gslb.names import PARENTS
from hanse.model.facts import Role
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.gslb import (
    NAMESPACE,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.objects import ClusterObjectRef, Object, ObjectRef
from hanse.model.plan import Question, Read
from hanse.model.questions import fresh_read_questions, fresh_values, live_uid
from hanse.model.snapshot import Snapshot, Watch

REPLICATED_KINDS: tuple[type[Object], ...] = (GSLBConfig, GlobalDeploymentPolicy, GSLBHostRule)
"""The kinds that the leader copies to its followers."""
RECHECK_INTERVAL = timedelta(seconds=5)


DEFINITION_WATCHES: tuple[Watch, ...] = tuple(
    Watch(
        Role.LOCAL,
        CustomResourceDefinition,
        name=kind.kind.definition,
        reason="whether objects are gone, or the kind itself",
    )
    for kind in REPLICATED_KINDS
)


class ParentsExist(Struct, frozen=True):
    """Both exist: what is gone was deleted, or belonged to their predecessors."""

    parents: str


class ParentGone(Struct, frozen=True):
    """The namespace or the definition is gone, and its objects with it."""

    message: str


class ParentsUnknown(Struct, frozen=True):
    """Live reads have to answer first."""

    questions: tuple[Question, ...]


ParentsCheck: TypeAlias = ParentsExist | ParentGone | ParentsUnknown


def parent_uids(kind: type[Object], snapshot: Snapshot) -> str:
    """`<namespace uid>/<CRD uid>` of a kind here, as annotated on copies.

    The namespace is that of GSLB; a uid that is unknown is empty.
    """
    namespace = snapshot.get(snapshot.local, Namespace, NAMESPACE)
    definition = snapshot.get(snapshot.local, CustomResourceDefinition, kind.kind.definition)
    return _join_uids(
        *(each.metadata.uid if each is not None else "" for each in (namespace, definition))
    )


def has_other_parents(copy: Object, parents: str) -> bool:
    """Whether a copy's annotation names another namespace or CRD by uid than `parents`.

    False without the annotation.
    """
    return copy.metadata.annotations.get(PARENTS, parents) != parents


def lost_parent_message(snapshot: Snapshot) -> str:
    """The message if the GSLB namespace or a CRD here is missing or terminating; else empty.

    A missing CRD counts only if sites have objects of its kind; a terminating one counts always.
    """
    namespace = snapshot.get(snapshot.local, Namespace, NAMESPACE)
    if namespace is None or namespace.terminating:
        return _no_namespace_message()
    for kind in REPLICATED_KINDS:
        definition = snapshot.get(snapshot.local, CustomResourceDefinition, kind.kind.definition)
        if definition is None:
            if any(True for _ in _list_copies(kind, snapshot)):
                return _no_definition_message(kind)
        elif definition.metadata.deletion_timestamp is not None:
            return _no_definition_message(kind)
    return ""


def check_parents(kind: type[Object], gone: Iterable[str], snapshot: Snapshot) -> ParentsCheck:
    """Whether the namespace and a kind's CRD exist here, by live reads after these names were gone.

    ParentsUnknown has the reads to ask for, until both are answered without error within
    MAX_READ_AGE; other names or a newly observed namespace or CRD need new reads. A terminating
    parent is gone.
    """
    names = ", ".join(sorted(set(gone)))
    since = f"{names} were gone from {parent_uids(kind, snapshot)}"
    reads = [
        Read(ClusterObjectRef(snapshot.local, ObjectRef(Namespace.kind, NAMESPACE)), since),
        Read(
            ClusterObjectRef(
                snapshot.local, ObjectRef(CustomResourceDefinition.kind, kind.kind.definition)
            ),
            since,
        ),
    ]
    results = fresh_values(reads, snapshot)
    if results is None:
        return ParentsUnknown(fresh_read_questions(reads))
    namespace, definition = (live_uid(each) for each in results)
    if not namespace:
        return ParentGone(_no_namespace_message())
    return (
        ParentsExist(_join_uids(namespace, definition))
        if definition
        else ParentGone(_no_definition_message(kind))
    )


def _list_copies(kind: type[Object], snapshot: Snapshot) -> Iterator[Object]:
    """The objects of a kind in the GSLB namespace of all sites, whoever wrote them."""
    for where in snapshot.clusters(Role.SITE):
        yield from snapshot.in_namespace(where, kind, NAMESPACE)


def _join_uids(namespace: str, definition: str) -> str:
    """`NAMESPACE-UID/CRD-UID`, as copies are annotated."""
    return f"{namespace}/{definition}"


def _no_namespace_message() -> str:
    """The message that the GSLB namespace is missing or terminating here."""
    return (
        f"namespace {NAMESPACE} is being deleted here, so nothing is federated and followers keep "
        "what they have; promote one of them"
    )


def _no_definition_message(kind: type[Object]) -> str:
    """The message that the CRD of a kind is missing or terminating here."""
    return (
        f"the definition {kind.kind.definition} is gone here or is being deleted, so nothing is "
        f"federated and followers keep what they have; run `hanse crds | kubectl apply -f -`"
    )
