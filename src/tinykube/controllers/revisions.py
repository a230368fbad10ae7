"""ControllerRevisions: the numbered history of a StatefulSet's or DaemonSet's template."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tinykube.controllers.controller import (
    CONTROLLER_REVISIONS,
    Create,
    Delete,
    Lister,
    Patch,
    Write,
)
from tinykube.controllers.objects import (
    creation_timestamp,
    is_deleting,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
)
from tinykube.controllers.pod_template import REVISION_LABEL, template_hash
from tinykube.resources import Object

HASH = "controller.kubernetes.io/hash"


class RevisionHistory(Struct, frozen=True):
    """The revisions of an owner, and the writes that record them."""

    current: Object
    """The revision of the last completed rollout."""
    update: Object
    """The revision of the current template."""
    writes: tuple[Write, ...] = ()


def find_revisions(owner: Object, revisions: Sequence[Object], lister: Lister) -> RevisionHistory:
    """Like `plan_revisions`; asks the lister whether another owner's revision has the new name."""
    existing = lister.get(CONTROLLER_REVISIONS, namespace_of(owner), new_revision_name(owner))
    own = {name_of(one) for one in revisions}
    collides = existing is not None and name_of(existing) not in own
    return plan_revisions(owner, revisions, collides=collides)


def plan_revisions(
    owner: Object, revisions: Iterable[Object], *, collides: bool = False
) -> RevisionHistory:
    """The current and update revisions, and the write that records the latter if it is needed.

    It creates the revision of the current template, or renumbers an older equal one as newest. If
    another owner's revision has its name (`collides`), the new one gets another. A terminating
    owner records nothing: the garbage collector deletes its revisions, and would do so without end.
    The current one is that of status.currentRevision, else the update revision.
    """
    by_number = sorted(revisions, key=_sort_key)
    data = revision_data(spec_of(owner)["template"])
    latest = int(by_number[-1].get("revision", 0)) if by_number else 0
    same = [one for one in by_number if one.get("data") == data]
    writes: tuple[Write, ...] = ()
    if same and same[-1] is by_number[-1]:
        update = same[-1]
    elif same:
        update = {**same[-1], "revision": latest + 1}
        writes = (Patch(CONTROLLER_REVISIONS, same[-1], {"revision": latest + 1}),)
    else:
        update = _new_revision(owner, data, latest + 1, int(collides))
        writes = (Create(CONTROLLER_REVISIONS, update),)
    current_name = status_of(owner).get("currentRevision")
    current = next((one for one in by_number if name_of(one) == current_name), update)
    return RevisionHistory(current, update, () if is_deleting(owner) else writes)


def new_revision_name(owner: Object) -> str:
    """The name that a new revision of the current template has unless it collides."""
    return f"{name_of(owner)}-{_revision_hash(owner, revision_data(spec_of(owner)['template']), 0)}"


def revision_data(template: Object) -> Object:
    """The data of a revision: a patch that restores its template."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: Object) -> Object:
    """The pod template of a revision."""
    template = revision["data"]["spec"]["template"]
    return {name: value for name, value in template.items() if name != "$patch"}


def revisions_to_delete(
    owner: Object, revisions: Iterable[Object], in_use: Iterable[str], pods: Iterable[Object]
) -> list[Write]:
    """Deletions of the oldest unused revisions beyond revisionHistoryLimit, 10 by default.

    Used are those whose names are in `in_use` or on the label controller-revision-hash of a pod;
    they do not count for the limit.
    """
    limit = spec_of(owner).get("revisionHistoryLimit", 10)
    used = {*in_use, *((pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in pods)}
    unused = [one for one in sorted(revisions, key=_sort_key) if name_of(one) not in used]
    return [Delete(CONTROLLER_REVISIONS, one) for one in unused[: max(0, len(unused) - int(limit))]]


def _new_revision(owner: Object, data: Object, number: int, collisions: int) -> Object:
    """A ControllerRevision of the owner's template, named by its hash and owned by it."""
    suffix = _revision_hash(owner, data, collisions)
    labels = (spec_of(owner)["template"].get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{name_of(owner)}-{suffix}",
            "namespace": namespace_of(owner),
            "labels": {**labels, HASH: suffix},
            "ownerReferences": [owner_reference(owner)],
        },
        "data": data,
        "revision": number,
    }


def _revision_hash(owner: Object, data: Object, collisions: int) -> str:
    """The hash of revision data; includes the owner's collision count plus `collisions`."""
    count = int(status_of(owner).get("collisionCount") or 0) + collisions
    return template_hash({"spec": data}, count)


def _sort_key(revision: Object) -> tuple[int, str, str]:
    """The sort key of a revision: its number, then creation time, then name."""
    return int(revision.get("revision", 0)), creation_timestamp(revision), name_of(revision)
