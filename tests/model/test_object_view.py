"""The view of single objects: what every kind of them has, whatever the feature."""

import pytest

from hanse.features.federation.view import OBJECTS as FEDERATIONS
from hanse.features.services.feature import Services
from hanse.features.services.view import OBJECTS
from hanse.model.facts import Role
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.federation import ClusterClaim
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Meta
from hanse.model.ownership import PAUSED
from hanse.model.snapshot import ObjectChange
from hanse.model.view import ALL_KEYS
from tests.support.builders import cluster, snapshot


@pytest.mark.parametrize(("value", "codes"), [("true", ["ObjectPaused"]), ("false", []), ("", [])])
def test_a_paused_object_is_named_with_the_command_that_resumes_it(
    value: str, codes: list[str]
) -> None:
    annotations = {PAUSED: value} if value else {}
    meta = Meta(name="web", namespace="shop", annotations=annotations)
    objects = {"lubeck": [ServiceExport(metadata=meta)]}
    own = snapshot(Services(), "lubeck", [cluster("lubeck", Role.LOCAL)], objects)
    fleet = MultiClusterSnapshot({"lubeck": own})

    items = [OBJECTS.render(key, fleet) for key in OBJECTS.keys(fleet)]

    found = [finding for item in items if item is not None for finding in item.findings]
    assert [one.code for one in found] == codes
    for one in found:
        resource = "serviceexports.multicluster.x-k8s.io"
        command = f"kubectl --context lubeck -n shop annotate {resource} web hanse.dev/paused-"
        assert one.remedy.commands == (command,)


def test_all_objects_are_judged_again_when_what_their_checks_read_changes() -> None:
    """A claim has a value and no spec."""
    claim = ClusterClaim(metadata=Meta(name="supervisor", resource_version="1"), value="false")
    changed = ClusterClaim(metadata=Meta(name="supervisor", resource_version="2"), value="true")
    same = ClusterClaim(metadata=Meta(name="supervisor", resource_version="3"), value="true")

    concerned = [
        tuple(FEDERATIONS.keys_for(ObjectChange("lubeck", before, after)))
        for before, after in ((claim, changed), (changed, same))
    ]

    assert concerned == [(ALL_KEYS,), ()]
