"""What is said of objects that agents write and a person paused."""

import pytest
from msgspec.structs import replace

from hanse.cli.fleet import ClusterRead
from hanse.features.fleet.pauses import PausedObjectsView
from hanse.model.facts import Facts, PausedObject
from hanse.model.findings import judge
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec
from hanse.model.objects import ClusterObjectRef, Meta, ObjectRef
from hanse.model.paused_objects import PAUSED_OBJECTS, pause_annotations, reported_pauses
from hanse.model.snapshot import FactChange, Snapshot
from tests.support.fleet_reads import NOW, findings, lease, read


def paused(where: str) -> PausedObject:
    return PausedObject(ClusterObjectRef(where, ObjectRef(EndpointSlice.kind, "web-1", "shop")))


def reporting(text: str) -> ClusterRead:
    """A cluster in whose agent's Lease this stands of paused objects."""
    own = lease("hanse-agent", "hanse-system", "bergen_0")
    own = replace(own, metadata=replace(own.metadata, annotations={PAUSED_OBJECTS: text}))
    return read("bergen", own, agent=None)


@pytest.mark.parametrize("where", ["bergen", "broker"])
def test_a_paused_slice_is_told_alike_by_its_agent_and_by_who_reads_its_lease(where: str) -> None:
    facts = Facts()
    facts.put(paused(where))
    fleet = MultiClusterSnapshot({"bergen": Snapshot({}, facts, NOW, "bergen")})
    view = PausedObjectsView()
    (key,) = view.keys(fleet)
    assert view.keys_for(FactChange(None, paused(where))) == (key,)
    item = view.render(key, fleet)
    assert item is not None
    (told,) = judge(item.findings)

    hub = read("hub", ClusterSet(metadata=Meta(name="all"), spec=ClusterSetSpec()), agent=None)
    (found,) = findings(reporting(pause_annotations([paused(where)])[PAUSED_OBJECTS]), hub)

    place = "hub" if where == "broker" else where
    assert (told.code, found.code) == ("ObjectPaused", "ObjectPaused")
    assert str(told.subject) == f"EndpointSlice shop/web-1 in {where}"
    assert str(found.subject) == f"EndpointSlice shop/web-1 in {place}"
    (command,) = found.remedy.commands
    resource = "endpointslices.discovery.k8s.io"
    assert command == (
        f"kubectl --context {place} -n shop annotate {resource} web-1 hanse.dev/paused-"
    )


def test_without_paused_objects_a_lease_says_nothing_and_nonsense_counts_as_nothing() -> None:
    assert pause_annotations([]) == {PAUSED_OBJECTS: ""}
    assert reported_pauses(None) == ()
    assert findings(reporting("{")) == ()
