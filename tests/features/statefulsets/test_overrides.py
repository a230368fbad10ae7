"""What differs in single clusters."""

import msgspec
import pytest

from hanse.features.statefulsets.names import LB_NEEDED, OVERRIDES
from hanse.features.statefulsets.overrides import overridden_spec, parse_overrides
from hanse.features.statefulsets.submitted import from_stateful_set
from hanse.model.kinds.core import Service
from tests.features.statefulsets.given import (
    HERE,
    LOCAL,
    part,
    plan,
    record,
    sets_in,
    snapshot_of,
    submitted_set,
)
from tests.scenarios.statefulsets import spec_of


def overrides(**by_cluster: object) -> dict[str, str]:
    return {OVERRIDES: msgspec.json.encode(by_cluster).decode()}


def test_a_cluster_runs_the_set_with_its_own_storage_nodes_and_registry() -> None:
    mine = {
        "storageClassName": "fast",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "data", "operator": "Exists"}],
        "resources": {"etcd": {"requests": {"cpu": "2"}}},
        "env": {"ZONE": "north"},
        "imageRegistry": "registry.north.example/",
    }
    notes = overrides(**{HERE: mine, "*": {"storageClassName": "slow"}})
    (own,) = sets_in(snapshot_of(submitted_set(3, notes), record(lubeck=1), part(HERE, 1)))

    pod = own.spec.template["spec"]
    (container,) = pod["containers"]
    assert own.spec.volume_claim_templates[0]["spec"]["storageClassName"] == "fast"
    assert (pod["nodeSelector"], pod["tolerations"]) == (mine["nodeSelector"], mine["tolerations"])
    assert container["image"] == "registry.north.example/etcd:3.6"
    assert container["resources"] == {"requests": {"cpu": "2"}}
    assert container["env"] == [{"name": "ZONE", "value": "north"}]
    other = overridden_spec(spec_of(), parse_overrides(notes[OVERRIDES]).of("bergen"))
    assert other.volume_claim_templates[0]["spec"]["storageClassName"] == "slow"


def test_the_load_balancers_of_a_cluster_have_its_annotations_and_class() -> None:
    lb = {"class": "inner", "annotations": {"cloud/scheme": "x", "external-dns.alpha/host": "y"}}
    notes = {LB_NEEDED: "true", **overrides(**{HERE: {"loadBalancer": lb}})}
    snap = snapshot_of(submitted_set(1, notes), record(lubeck=1), part(HERE, 1))

    desired = [d.object for d in plan(LOCAL, snap).desired if d.where == HERE]
    (service,) = [o for o in desired if isinstance(o, Service) and o.name == "store-lubeck-0"]

    assert service.spec.load_balancer_class == "inner"
    assert service.metadata.annotations == {"cloud/scheme": "x"}, "names are published by us alone"


def test_all_clusters_mean_the_same_revision_and_a_new_override_is_a_new_one() -> None:
    one = from_stateful_set(submitted_set(3, overrides(lubeck={"env": {"A": "1"}})))
    two = from_stateful_set(submitted_set(3, overrides(lubeck={"env": {"A": "2"}})))

    assert one.in_cluster("lubeck").revision == one.in_cluster("bergen").revision == one.revision
    assert one.revision != two.revision
    assert from_stateful_set(submitted_set(3)).revision != one.revision


@pytest.mark.parametrize(
    ("image", "moved"),
    [
        ("etcd:3.6", "mirror:5000/etcd:3.6"),
        ("library/etcd", "mirror:5000/library/etcd"),
        ("quay.io/coreos/etcd@sha256:1", "mirror:5000/coreos/etcd@sha256:1"),
    ],
)
def test_an_image_comes_from_the_clusters_registry(image: str, moved: str) -> None:
    override = parse_overrides('{"*": {"imageRegistry": "mirror:5000"}}').of("lubeck")

    found = overridden_spec(spec_of(image=image), override).template

    assert found["spec"]["containers"][0]["image"] == moved


def test_an_override_that_cannot_be_read_makes_the_set_invalid() -> None:
    (error,) = from_stateful_set(submitted_set(3, {OVERRIDES: '{"a": {"disk": 1}}'})).errors

    assert error.startswith(f"annotation {OVERRIDES}: ")
    assert "unknown field `disk`" in error
