"""Whether what this cluster lacks was deleted by somebody, or went with its namespace or kind.

Who deletes the namespace or a definition where the leader is, by mistake or to leave, does not
mean the configuration of all other clusters: that is what they have it for.
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
    Watch(Role.LOCAL, CustomResourceDefinition, name=kind.kind.definition)
    for kind in REPLICATED_KINDS
)


class ParentsExist(Struct, frozen=True):
    """What is gone was deleted by somebody, or while another namespace or definition stood."""

    home: str


class ParentGone(Struct, frozen=True):
    """The namespace or the definition is gone, and has taken along what was in it."""

    why: str


class ParentsUnknown(Struct, frozen=True):
    """It has to be asked for."""

    questions: tuple[Question, ...]


ParentsCheck: TypeAlias = ParentsExist | ParentGone | ParentsUnknown


def parent_uids(kind: type[Object], snapshot: Snapshot) -> str:
    """The namespace and the definition that objects of a kind live by, as copies remember them."""
    space = snapshot.get(snapshot.local, Namespace, NAMESPACE)
    definition = snapshot.get(snapshot.local, CustomResourceDefinition, kind.kind.definition)
    return _home(*(one.metadata.uid if one is not None else "" for one in (space, definition)))


def has_other_parents(copy: Object, home: str) -> bool:
    """Whether a copy is of what stood here in a namespace or by a definition before these."""
    return copy.metadata.annotations.get(PARENTS, home) != home


def lost_parent_message(snapshot: Snapshot) -> str:
    """What this cluster's configuration has lost its place by; empty where it has not."""
    space = snapshot.get(snapshot.local, Namespace, NAMESPACE)
    if space is None or space.terminating:
        return _no_namespace()
    for kind in REPLICATED_KINDS:
        definition = snapshot.get(snapshot.local, CustomResourceDefinition, kind.kind.definition)
        if definition is None:
            if any(True for _ in _copies(kind, snapshot)):
                return _no_definition(kind)
        elif definition.metadata.deletion_timestamp is not None:
            return _no_definition(kind)
    return ""


def check_parents(kind: type[Object], gone: Iterable[str], snapshot: Snapshot) -> ParentsCheck:
    """Look whether what is gone may have been deleted; watches may lag behind each other."""
    since = f"{', '.join(sorted(set(gone)))} were gone"
    reads = [
        Read(ClusterObjectRef(snapshot.local, ObjectRef(Namespace.kind, NAMESPACE)), since),
        Read(
            ClusterObjectRef(
                snapshot.local, ObjectRef(CustomResourceDefinition.kind, kind.kind.definition)
            ),
            since,
        ),
    ]
    known = fresh_values(reads, snapshot)
    if known is None:
        return ParentsUnknown(fresh_read_questions(reads))
    space, definition = (live_uid(one) for one in known)
    if not space:
        return ParentGone(_no_namespace())
    return (
        ParentsExist(_home(space, definition)) if definition else ParentGone(_no_definition(kind))
    )


def _copies(kind: type[Object], snapshot: Snapshot) -> Iterator[Object]:
    for where in snapshot.clusters(Role.SITE):
        yield from snapshot.all(where, kind)


def _home(space: str, definition: str) -> str:
    return f"{space}/{definition}"


def _no_namespace() -> str:
    return (
        f"namespace {NAMESPACE} is being deleted here, so nothing is federated and followers keep "
        "what they have; promote one of them"
    )


def _no_definition(kind: type[Object]) -> str:
    return (
        f"the definition {kind.kind.definition} is gone here or is being deleted, so nothing is "
        f"federated and followers keep what they have; run `hanse crds | kubectl apply -f -`"
    )
