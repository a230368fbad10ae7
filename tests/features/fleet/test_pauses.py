"""What is said of objects that agents write and a person paused."""

import msgspec
import pytest
from msgspec.structs import replace

from hanse.cli.fleet import ClusterRead
from hanse.features.fleet.pauses import HeldDeletionsView, PausedObjectsView
from hanse.model.facts import DeletionsHeld, Facts, PausedObject
from hanse.model.findings import Ref, judge
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.held_deletions import HELD_DELETIONS, hold_annotations
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec
from hanse.model.objects import ClusterObjectRef, Meta, ObjectRef
from hanse.model.paused_objects import PAUSED_OBJECTS, pause_annotations, reported_pauses
from hanse.model.refused_writes import REFUSED_WRITES, RefusedWrites
from hanse.model.snapshot import FactChange, Snapshot
from tests.support.fleet_reads import NOW, findings, lease, read


def paused(where: str) -> PausedObject:
    return PausedObject(ClusterObjectRef(where, ObjectRef(EndpointSlice.kind, "web-1", "shop")))


def reporting(text: str, annotation: str = PAUSED_OBJECTS) -> ClusterRead:
    """A cluster in whose agent's Lease this stands of paused objects, or as another annotation."""
    own = lease("hanse-agent", "hanse-system", "bergen_0")
    own = replace(own, metadata=replace(own.metadata, annotations={annotation: text}))
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


@pytest.mark.parametrize("where", ["bergen", "broker"])
def test_held_deletions_are_told_alike_by_their_agent_and_by_who_reads_its_lease(
    where: str,
) -> None:
    held = DeletionsHeld(where, "services")
    facts = Facts()
    facts.put(held)
    fleet = MultiClusterSnapshot({"bergen": Snapshot({}, facts, NOW, "bergen")})
    view = HeldDeletionsView()
    (key,) = view.keys(fleet)
    assert view.keys_for(FactChange(held, None)) == (key,)
    item = view.render(key, fleet)
    assert item is not None
    (told,) = judge(item.findings)

    hub = read("hub", ClusterSet(metadata=Meta(name="all"), spec=ClusterSetSpec()), agent=None)
    text = hold_annotations([held])[HELD_DELETIONS]
    (found,) = findings(reporting(text, HELD_DELETIONS), hub)

    place = "hub" if where == "broker" else where
    assert str(told.subject) == f"Feature services in {where}"
    assert (found.code, str(found.subject)) == (
        "MassDeletionHeld",
        f"Feature services in {place}",
    )
    assert found.remedy.commands == ()
    assert "annotate namespace hanse-system hanse.dev/allow-mass-deletion=services" in str(
        found.remedy
    )
    assert hold_annotations([]) == {HELD_DELETIONS: ""}
    assert findings(reporting("{", HELD_DELETIONS)) == ()


def test_what_a_lease_says_is_quoted_in_commands() -> None:
    """Whoever may write the Lease of one agent writes its annotations, too."""
    named = ClusterObjectRef("bergen", ObjectRef(EndpointSlice.kind, "web; id", "shop$(id)"))
    texts = pause_annotations([PausedObject(named)])[PAUSED_OBJECTS]
    held = hold_annotations([DeletionsHeld("bergen", "services; id")])[HELD_DELETIONS]
    refuser = Ref("ValidatingAdmissionPolicy", "guard; id", cluster="bergen")
    refused = msgspec.json.encode([RefusedWrites(refuser, 1, "Pod web", "no", NOW)]).decode()

    (refused_there,) = findings(reporting(refused, REFUSED_WRITES))
    (paused_there,) = findings(reporting(texts))
    (held_there,) = findings(reporting(held, HELD_DELETIONS))

    assert "-n 'shop$(id)' annotate" in paused_there.remedy.commands[0]
    assert " 'web; id' hanse.dev/paused-" in paused_there.remedy.commands[0]
    assert "allow-mass-deletion='services; id'`" in held_there.remedy.advice
    assert " 'guard; id' -o yaml`" in refused_there.remedy.advice
