"""The earlier templates of a set, which the clusters that ran them have, and the way back to one.

At the broker no controller keeps ControllerRevisions, and members are not trusted to write them
there: one could plant a template for the next `kubectl rollout undo`. Each cluster's own controller
keeps those of its StatefulSet, and who may read them there has chosen to trust that cluster.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed
from hanse.cli.inventory import find_broker
from hanse.features.statefulsets.names import OVERRIDES, SET
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.kube.transport import Request
from hanse.model.kinds.apps import ControllerRevision, StatefulSet
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.objects import Wire
from hanse.model.ownership import OWNER


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
        """The images of its containers."""
        containers = self.template.get("spec", {}).get("containers") or ()
        return tuple(str(each.get("image", "")) for each in containers)


class History(Struct, frozen=True):
    """The templates of a set, the newest last."""

    cluster: str
    """The context of the cluster that kept them."""
    revisions: tuple[Revision, ...]

    def choose(self, number: int | None) -> Revision:
        """The revision of a number, or the newest that the set does not have now."""
        for revision in reversed(self.revisions):
            if revision.number == number or (number is None and not revision.is_present):
                return revision
        wanted = "no earlier template" if number is None else f"no revision {number}"
        raise CommandFailed(f"{self.cluster} has {wanted}; see `hanse statefulsets history`")


async def read_history(
    clusters: Sequence[ClusterAccess], namespace: str, name: str, source: str = ""
) -> History:
    """The templates of a set in the first cluster that runs it, or in that of a context."""
    broker = await find_broker(clusters)
    async with connect(broker) as client:
        present = await _read_set(client, namespace, name)
    for cluster in clusters:
        if cluster.name == broker.name or source not in ("", cluster.name):
            continue
        async with connect(cluster) as client:
            if found := await _revisions(client, namespace, name, _template(present)):
                return History(cluster.name, tuple(found))
    where = f"{source} has" if source else "no context of the kubeconfig is a cluster that has"
    raise CommandFailed(f"{where} no StatefulSet of the set {namespace}/{name}")


async def undo(
    clusters: Sequence[ClusterAccess],
    namespace: str,
    name: str,
    number: int | None,
    source: str = "",
) -> Revision:
    """Give a set the template of an earlier revision; returns it."""
    history = await read_history(clusters, namespace, name, source)
    chosen = history.choose(number)
    async with connect(await find_broker(clusters)) as client:
        present = await _read_set(client, namespace, name)
        if OVERRIDES in present.metadata.annotations:
            raise CommandFailed(
                f"{namespace}/{name} has {OVERRIDES}, which are a part of the templates in "
                "clusters: apply an earlier manifest instead"
            )
        kind = type(present).kind
        field = "/spec/template" + ("/spec/template" * isinstance(present, FederatedStatefulSet))
        changes = [
            {"op": "test", "path": field, "value": _template(present)},
            {"op": "replace", "path": field, "value": chosen.template},
        ]
        path = f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.plural}/{name}"
        body, content = msgspec.json.encode(changes), "application/json-patch+json"
        await client.send(Request("PATCH", path, body=body, content_type=content))
    return chosen


async def _read_set(
    client: Client, namespace: str, name: str
) -> StatefulSet | FederatedStatefulSet:
    """The set at the broker."""
    found: StatefulSet | FederatedStatefulSet
    try:
        found = await client.read(StatefulSet, name, namespace)
    except NotFound:
        try:
            found = await client.read(FederatedStatefulSet, name, namespace)
        except NotFound:
            raise CommandFailed(f"there is no set {namespace}/{name} at the broker") from None
    if OWNER in found.metadata.labels:
        raise CommandFailed(f"{namespace}/{name} is hosted in a cluster: change it there")
    return found


def _template(present: StatefulSet | FederatedStatefulSet) -> Wire:
    if isinstance(present, StatefulSet):
        return present.spec.template
    template: Wire = present.spec.template.spec["template"]
    return template


async def _revisions(client: Client, namespace: str, name: str, present: Wire) -> list[Revision]:
    """The revisions of a set's StatefulSet in one cluster, the newest last; none without one."""
    owned = (await client.list(StatefulSet, namespace=namespace, labels=f"{SET}={name}")).objects
    uids = {each.metadata.uid for each in owned}
    found = (await client.list(ControllerRevision, namespace=namespace)).objects if uids else ()
    own = [r for r in found if any(o.uid in uids for o in r.metadata.owner_references)]
    return list(_decoded(sorted(own, key=lambda revision: revision.revision), present))


def _decoded(revisions: Iterable[ControllerRevision], present: Wire) -> Iterable[Revision]:
    for each in revisions:
        template = {**each.data.get("spec", {}).get("template", {})}
        template.pop("$patch", None)
        created = each.metadata.creation_timestamp
        yield Revision(each.revision, created, template, is_present=template == present)
