"""The earlier templates of a set, which the clusters that ran them have, and the way back to one.

At the broker no controller keeps ControllerRevisions, and members are not trusted to write them
there: one could plant a template for the next `kubectl rollout undo`. Each cluster's own controller
keeps those of its StatefulSet, and who may read them there has chosen to trust that cluster.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.inventory import find_broker
from hanse.features.statefulsets.names import OVERRIDES, SET
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.model.kinds.apps import ControllerRevision, StatefulSet
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.objects import Wire
from hanse.model.ownership import OWNER
from hanse.runtime.compare import contains

_RESTARTED = "kubectl.kubernetes.io/restartedAt"


class SubmittedObject(Struct, frozen=True):
    """Where a set was submitted: the broker, or the cluster that hosts it."""

    access: ClusterAccess
    present: StatefulSet | FederatedStatefulSet

    @property
    def template(self) -> Wire:
        """The pod template in the spec, which a FederatedStatefulSet has one level deeper."""
        if isinstance(self.present, StatefulSet):
            return self.present.spec.template
        template: Wire = self.present.spec.template.spec["template"]
        return template

    @property
    def template_path(self) -> tuple[str, ...]:
        """The names of the fields down to the pod template: `spec`, `template`, or these twice."""
        above = ("spec", "template") if isinstance(self.present, FederatedStatefulSet) else ()
        return (*above, "spec", "template")


class Revision(Struct, frozen=True):
    """One template that a set had."""

    number: int
    """As the cluster counts it."""
    created: datetime | None
    template: Wire
    is_present: bool
    """Whether it is the one of the set now."""

    @property
    def images(self) -> tuple[str, ...]:
        """The images of the template's containers, in order, without init containers."""
        containers = self.template.get("spec", {}).get("containers") or ()
        return tuple(str(each.get("image", "")) for each in containers)


class History(Struct, frozen=True):
    """The templates of a set, the newest last."""

    cluster: str
    """The context of the cluster that kept them."""
    revisions: tuple[Revision, ...]

    def choose(self, number: int | None) -> Revision:
        """The revision of a number; without one the newest that is not the set's present template.

        Raises `CommandFailed` if there is none or, without a number, if the present template is not
        among the revisions.
        """
        if number is None and not any(revision.is_present for revision in self.revisions):
            raise CommandFailed(
                f"which template the set has now is not among those of {self.cluster}, or is "
                "written differently there; choose one of `hanse statefulsets history` by "
                "--to-revision"
            )
        for revision in reversed(self.revisions):
            if revision.number == number or (number is None and not revision.is_present):
                return revision
        wanted = "no earlier template" if number is None else f"no revision {number}"
        raise CommandFailed(f"{self.cluster} has {wanted}; see `hanse statefulsets history`")


async def read_history(
    clusters: Sequence[ClusterAccess], namespace: str, name: str, source: str = ""
) -> History:
    """Read a set's ControllerRevisions from a cluster that runs it; only from `source`, if given.

    The first cluster in which one is the set's present template is taken, else the first that has
    any: a bad template has halted in the cluster that got it first. Clusters that cannot be read
    are left out, unless no other has any: then their error is raised. Raises `CommandFailed` if
    none has any, or the set is not found where it was submitted.
    """
    submitted = await _find_submitted(clusters, namespace, name)
    other: History | None = None
    unread: CommandFailed | InputError | None = None
    for cluster in clusters:
        if source not in ("", cluster.name):
            continue
        try:
            async with connect(cluster) as client:
                found = await _revisions(client, namespace, name, submitted.template)
        except (CommandFailed, InputError) as error:
            unread = unread or error
            continue
        if any(revision.is_present for revision in found):
            return History(cluster.name, tuple(found))
        other = other or (History(cluster.name, tuple(found)) if found else None)
    if other is not None:
        return other
    if unread is not None:
        raise unread
    where = f"{source} has" if source else "no context of the kubeconfig is a cluster that has"
    raise CommandFailed(f"{where} no StatefulSet of the set {namespace}/{name}")


async def undo(
    clusters: Sequence[ClusterAccess],
    namespace: str,
    name: str,
    number: int | None,
    source: str = "",
) -> Revision:
    """Patch the set, where it was submitted, with the pod template of an earlier revision.

    Returns that revision. Raises `CommandFailed` for a set with overrides, if no revision fits or
    is found, and if the template was changed meanwhile.
    """
    history = await read_history(clusters, namespace, name, source)
    chosen = history.choose(number)
    submitted = await _find_submitted(clusters, namespace, name)
    present = submitted.present
    if OVERRIDES in present.metadata.annotations:
        raise CommandFailed(
            f"{namespace}/{name} has {OVERRIDES}, which are a part of the templates in clusters: "
            "apply an earlier manifest instead"
        )
    field = "/" + "/".join(submitted.template_path)
    changes = (
        {"op": "test", "path": field, "value": submitted.template},
        {"op": "replace", "path": field, "value": chosen.template},
    )
    async with connect(submitted.access) as client:
        await client.patch(type(present), name, namespace, changes)
    return chosen


async def restart(clusters: Sequence[ClusterAccess], namespace: str, name: str) -> None:
    """Annotate the set's pod template, where it was submitted, with the present time.

    So its replicas are rolled out anew; that is not waited for. Raises `CommandFailed` if that
    place is not found.
    """
    submitted = await _find_submitted(clusters, namespace, name)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    change: Wire = {"metadata": {"annotations": {_RESTARTED: now}}}
    for field in reversed(submitted.template_path):
        change = {field: change}
    async with connect(submitted.access) as client:
        await client.patch(type(submitted.present), name, namespace, change)


async def _find_submitted(
    clusters: Sequence[ClusterAccess], namespace: str, name: str
) -> SubmittedObject:
    """Read the set where it was submitted: at the broker, or in the cluster that hosts it.

    A set at the broker that agents own is hosted by a cluster whose own FederatedStatefulSet has
    the same spec. Raises `CommandFailed` if there is no set, or no such cluster, and the error of a
    cluster that cannot be read in the latter case, as it may be the host.
    """
    broker = await find_broker(clusters)
    async with connect(broker) as client:
        present = await _read_set(client, namespace, name, (StatefulSet, FederatedStatefulSet))
    if present is None:
        raise CommandFailed(f"there is no set {namespace}/{name} at the broker")
    if OWNER not in present.metadata.labels:
        return SubmittedObject(broker, present)
    different = ""
    unread: CommandFailed | InputError | None = None
    for cluster in clusters:
        try:
            async with connect(cluster) as client:
                hosted = await _read_set(client, namespace, name, (FederatedStatefulSet,))
        except (CommandFailed, InputError) as error:
            unread = unread or error
            continue
        if hosted is None or OWNER in hosted.metadata.labels:
            continue
        if hosted.spec == present.spec:
            return SubmittedObject(cluster, hosted)
        different = cluster.name
    if unread is not None:
        raise unread
    if different:
        raise CommandFailed(
            f"the broker does not have {namespace}/{name} as {different} has it now: try again "
            f"once the agent of {different} has published it"
        )
    raise CommandFailed(
        f"{namespace}/{name} is hosted in a cluster, and no context of the kubeconfig has it: "
        "change it there"
    )


async def _read_set(
    client: Client,
    namespace: str,
    name: str,
    kinds: Sequence[type[StatefulSet | FederatedStatefulSet]],
) -> StatefulSet | FederatedStatefulSet | None:
    """The set of a name, of the first of these kinds that has one; None if there is none."""
    for kind in kinds:
        with suppress(NotFound):
            return await client.read(kind, name, namespace)
    return None


async def _revisions(client: Client, namespace: str, name: str, present: Wire) -> list[Revision]:
    """List the ControllerRevisions of a set's StatefulSets in one cluster, the newest last.

    Empty if the set has no StatefulSet there. One at most is marked as the set's now: the last that
    equals `present`, else the last that has all its fields.
    """
    owned = (await client.list(StatefulSet, namespace=namespace, labels=f"{SET}={name}")).objects
    uids = {each.metadata.uid for each in owned}
    found = (await client.list(ControllerRevision, namespace=namespace)).objects if uids else ()
    own = [r for r in found if any(o.uid in uids for o in r.metadata.owner_references)]
    return list(_decoded(sorted(own, key=lambda revision: revision.revision), present))


def _decoded(revisions: Iterable[ControllerRevision], present: Wire) -> Iterable[Revision]:
    """The revisions in order, with their pod templates.

    One at most is marked as the set's now, by `_index_of`.
    """
    kept = list(revisions)
    templates = [{**each.data.get("spec", {}).get("template", {})} for each in kept]
    for template in templates:
        template.pop("$patch", None)
    now = _index_of(present, templates)
    for at, (each, template) in enumerate(zip(kept, templates, strict=True)):
        created = each.metadata.creation_timestamp
        yield Revision(each.revision, created, template, is_present=at == now)


def _index_of(present: Wire, templates: Sequence[Wire]) -> int | None:
    """The index of the last template equal to `present`, else of the last that has all its fields.

    None if there is none. API servers fill in defaults of StatefulSets, not of
    FederatedStatefulSets.
    """
    found = (at for at, template in enumerate(templates) if template == present)
    filled = (at for at, template in enumerate(templates) if contains(template, present))
    same = max(found, default=None)
    return same if same is not None else max(filled, default=None)
