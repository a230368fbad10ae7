"""The end of a host: its services are marked in every cluster before they are deleted."""

from collections.abc import Iterator

from msgspec.structs import replace

from hanse.features.gslb.known import is_withdrawn
from hanse.features.gslb.leadership import Leading
from hanse.features.gslb.names import LED_BY, WITHDRAWN
from hanse.features.gslb.replication import without_server_metadata
from hanse.model.facts import Role
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import ClusterId, Meta
from hanse.model.plan import Desired, Shared
from hanse.model.snapshot import Snapshot


def withdraw(
    host: str, refused: tuple[str, ...], state: Leading, snapshot: Snapshot
) -> Iterator[Desired]:
    """A host's services with the withdrawn annotation, until every synced follower has one.

    Name servers forget a host for this mark alone, and not because its object is gone: a follower
    that lacks the object, as after a restore, gets one with the mark. Then the service here is
    deleted, and after it the others. While others claim the host, the marked services stay, with
    the record of its owners.
    """
    here = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
    sites = {
        where: snapshot.get(where, GlobalService, host, NAMESPACE)
        for where in snapshot.clusters(Role.SITE)
    }
    if here is None:
        for where, service in sites.items():
            if service is not None and (refused or not is_withdrawn(service)):
                yield _marked(service, where, refused)
        return
    lacking = [w for w in state.followers if sites.get(w) is None and _is_waited_for(w, snapshot)]
    waiting = [w for w, s in sites.items() if s is not None and not is_withdrawn(s)]
    if (
        refused
        or lacking
        or any(_is_waited_for(w, snapshot) for w in waiting)
        or not is_withdrawn(here)
    ):
        yield _marked(here, snapshot.local, refused)
    for where, service in sites.items():
        if service is not None:
            yield _marked(service, where, refused)
        elif where in lacking:
            meta = Meta(name=host, namespace=NAMESPACE, annotations={LED_BY: state.term_annotation})
            yield _marked(GlobalService(metadata=meta, spec=here.spec), where, refused)


def _is_waited_for(where: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a cluster is synced and serves GlobalService, so that the withdrawal waits for it."""
    return snapshot.synced(where) and snapshot.serves(where, GlobalService) is not False


def _marked(service: GlobalService, where: ClusterId, refused: tuple[str, ...]) -> Desired:
    """The service with the withdrawn annotation and `refused` in its status, to be shared."""
    kept = replace(
        without_server_metadata(service), status=replace(service.status, refused=refused)
    )
    annotations = {**kept.metadata.annotations, WITHDRAWN: "true"}
    marked = replace(kept, metadata=replace(kept.metadata, annotations=annotations))
    return Desired(marked, where, ownership=Shared())
