"""ControllerRevisions: the numbered history of a StatefulSet's or DaemonSet's template."""

from collections.abc import Iterable

from msgspec import Struct

from tinykube.controllers.controller import (
    CONTROLLER_REVISIONS,
    Create,
    Delete,
    Patch,
    Write,
)
from tinykube.controllers.objects import (
    creation_timestamp,
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
    """The revision that the present template is, the one pods were rolled to last, and the writes
    that record them."""

    current: Object
    update: Object
    writes: tuple[Write, ...] = ()


def find_revisions(
    owner: Object, revisions: Iterable[Object], *, occupied: bool = False
) -> RevisionHistory:
    """Find or make the revision of the present template; an earlier one is renumbered as newest.

    `occupied` says that the name the new revision would get is somebody else's.
    """
    by_number = sorted(revisions, key=_age)
    data = recorded(spec_of(owner)["template"])
    latest = int(by_number[-1].get("revision", 0)) if by_number else 0
    same = [one for one in by_number if one.get("data") == data]
    writes: tuple[Write, ...] = ()
    if same and same[-1] is by_number[-1]:
        update = same[-1]
    elif same:
        update = {**same[-1], "revision": latest + 1}
        writes = (Patch(CONTROLLER_REVISIONS, same[-1], {"revision": latest + 1}),)
    else:
        update = _revision(owner, data, latest + 1, int(occupied))
        writes = (Create(CONTROLLER_REVISIONS, update),)
    wanted = status_of(owner).get("currentRevision")
    current = next((one for one in by_number if name_of(one) == wanted), update)
    return RevisionHistory(current, update, writes)


def new_revision_name(owner: Object) -> str:
    """The name that a revision of the present template gets."""
    return f"{name_of(owner)}-{_hash(owner, recorded(spec_of(owner)['template']), 0)}"


def recorded(template: Object) -> Object:
    """What a revision keeps: a patch that puts its template back."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: Object) -> Object:
    """The template that a revision keeps."""
    template = revision["data"]["spec"]["template"]
    return {name: value for name, value in template.items() if name != "$patch"}


def revisions_to_delete(
    owner: Object, revisions: Iterable[Object], live: Iterable[str], pods: Iterable[Object]
) -> list[Write]:
    """Deletions of the oldest revisions that nothing uses, beyond the history limit."""
    limit = spec_of(owner).get("revisionHistoryLimit", 10)
    used = {*live, *((pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in pods)}
    idle = [one for one in sorted(revisions, key=_age) if name_of(one) not in used]
    return [Delete(CONTROLLER_REVISIONS, one) for one in idle[: max(0, len(idle) - int(limit))]]


def _revision(owner: Object, data: Object, number: int, collisions: int) -> Object:
    suffix = _hash(owner, data, collisions)
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


def _hash(owner: Object, data: Object, collisions: int) -> str:
    seen = int(status_of(owner).get("collisionCount") or 0) + collisions
    return template_hash({"spec": data}, seen)


def _age(revision: Object) -> tuple[int, str, str]:
    return int(revision.get("revision", 0)), creation_timestamp(revision), name_of(revision)
