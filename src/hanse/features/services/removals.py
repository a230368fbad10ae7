"""Slices of this cluster on the broker that are removed though no plan of ours owns them."""

from collections.abc import Iterable, Iterator, Sequence

from hanse.features.services.clusters import source_cluster
from hanse.features.services.names import FEATURE_NAME
from hanse.model.facts import ClusterState, Phase
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.ownership import OWNER, is_owned_by, owner_label
from hanse.model.plan import Desired, Key, Removal
from hanse.model.snapshot import Snapshot


def split_strays(
    slices: Iterable[EndpointSlice], key: Key, snapshot: Snapshot
) -> tuple[list[EndpointSlice], list[EndpointSlice]]:
    """The slices to keep; then strays: those of the local cluster that its agent did not publish.

    A stray names it as the source, and has another owner label or lacks our owner annotation; a
    missing label alone is none. Slices of other clusters are all kept.
    """
    label = owner_label(FEATURE_NAME, str(key), snapshot.local)
    kept: list[EndpointSlice] = []
    strays: list[EndpointSlice] = []
    for each in slices:
        is_stray = source_cluster(each) == snapshot.local and (
            each.metadata.labels.get(OWNER, label) != label
            or not is_owned_by(each, FEATURE_NAME, str(key), snapshot.local)
        )
        (strays if is_stray else kept).append(each)
    return kept, strays


def stray_removals(strays: Iterable[EndpointSlice], broker: ClusterId) -> Iterator[Removal]:
    """Removals of slices on the broker that somebody else published in our name."""
    for each in strays:
        place = ClusterObjectRef(broker, object_ref(each))
        yield Removal(place, each.metadata.uid, "our agent did not publish it")


def superseded_slices(
    desired: Sequence[Desired], own: Sequence[EndpointSlice], snapshot: Snapshot
) -> Iterator[Removal]:
    """Removals of slices in `own` that are not in `desired`, while this cluster is unreachable.

    The runtime would keep them meanwhile. None if the cluster is reachable, recovering or was not
    listed yet, if nothing is desired, and until all desired ones are in `own`.
    """
    home = snapshot.fact(ClusterState, snapshot.local)
    if home is None or home.phase is not Phase.UNREACHABLE or home.recovering or not home.listed:
        return
    wanted = {d.object.metadata.name: d.where for d in desired}
    if wanted and wanted.keys() <= {s.metadata.name for s in own}:
        (broker,) = {*wanted.values()}
        for each in own:
            if each.metadata.name not in wanted:
                place = ClusterObjectRef(broker, object_ref(each))
                yield Removal(place, each.metadata.uid, "the rules of the ClusterSet changed")
