"""Definitions: structural, explained to people, bounded, and in agreement with the structs."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest

from hanse.model.crds import FOREIGN_KINDS, OWN_KINDS, STAND_IN, crd_of, crds, placeholder_crds
from hanse.model.kinds.core import Service
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Object, Wire, to_wire
from hanse.model.schema import Schema, structural_schema
from tests.model.examples import BAD, GOOD, Refused, good

Node = tuple[str, Wire]

EITHER = ["Federation.spec.clusterSet", "Federation.spec.members[].clusterID"]
"""Strings or objects: a structural schema has no type for both."""


def schemas() -> Iterator[Node]:
    """Every node of every schema of ours, with its path."""
    for kind in OWN_KINDS:
        yield from nodes(kind.__name__, root(kind))


def root(kind: type[Object]) -> Wire:
    schema: Wire = crd_of(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(path: str, schema: Wire) -> Iterator[Node]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(f"{path}.{name}", child)
    if "items" in schema:
        yield from nodes(f"{path}[]", schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(f"{path}{{}}", schema["additionalProperties"])


def test_every_node_says_its_type() -> None:
    assert [path for path, node in schemas() if "type" not in node] == EITHER


def test_every_field_is_explained_in_a_sentence() -> None:
    metadata = {f"{kind.__name__}.metadata{name}" for kind in OWN_KINDS for name in ("", ".name")}
    explained = {
        f"{path}.{name}": child.get("description", "")
        for path, node in schemas()
        for name, child in node.get("properties", {}).items()
    }

    ours = {path: said for path, said in explained.items() if path not in metadata}

    assert [path for path, said in ours.items() if not re.fullmatch(r"[A-Z].*\.", said)] == []
    assert len(ours) > 200


def test_what_is_required_exists() -> None:
    missing = [
        f"{path}.{name}"
        for path, node in schemas()
        for name in node.get("required", ())
        if name not in node["properties"]
    ]

    assert missing == []


def test_every_list_has_a_bound_so_that_rules_have_a_cost() -> None:
    assert [
        p for p, node in schemas() if node.get("type") == "array" and "maxItems" not in node
    ] == []


def test_the_keys_of_a_list_are_always_there() -> None:
    keyed = [(path, node) for path, node in schemas() if "x-kubernetes-list-map-keys" in node]
    unsure = [
        f"{path}.{key}"
        for path, node in keyed
        for key in node["x-kubernetes-list-map-keys"]
        if key not in node["items"].get("required", ())
        and "default" not in node["items"]["properties"][key]
    ]

    assert len(keyed) > 10
    assert unsure == []


def test_sets_are_of_scalars() -> None:
    sets = [node for _, node in schemas() if node.get("x-kubernetes-list-type") == "set"]

    assert sets
    assert all(node["items"]["type"] == "string" for node in sets)


def test_defaults_are_values_that_the_schema_allows() -> None:
    given = [(path, node) for path, node in schemas() if "default" in node]

    for path, node in given:
        value = node["default"]
        assert value in node.get("enum", (value,)), path
        if node["type"] == "integer":
            assert node.get("minimum", value) <= value <= node.get("maximum", value), path


def test_unknown_fields_are_kept_only_where_a_template_is_carried() -> None:
    opaque = [path for path, node in schemas() if "x-kubernetes-preserve-unknown-fields" in node]

    assert opaque == [
        "FederatedStatefulSet.spec.template.spec",
        "FederatedStatefulSet.spec.template.spec.selector",
        "FederatedStatefulSet.spec.template.spec.template",
        *EITHER,
    ]


@pytest.mark.parametrize("kind", OWN_KINDS, ids=lambda kind: kind.__name__)
def test_a_column_shows_one_value_that_exists(kind: type[Object]) -> None:
    for column in crd_of(kind)["spec"]["versions"][0]["additionalPrinterColumns"]:
        path = re.sub(r"\[\?\(@\.type==\"\w+\"\)\]", "[]", column["jsonPath"])
        assert "*" not in path
        if path != ".metadata.creationTimestamp":
            assert f"{kind.__name__}{path}" in dict(nodes(kind.__name__, root(kind)))


def test_one_version_is_stored_and_all_have_one_schema() -> None:
    versions = crd_of(ServiceExport)["spec"]["versions"]

    assert [(v["name"], v["served"], v["storage"]) for v in versions] == [
        ("v1beta1", True, True),
        ("v1alpha1", True, False),
    ]
    assert versions[0]["schema"] == versions[1]["schema"]


def test_names_are_unique_in_the_whole_fleet() -> None:
    every = [crd["spec"]["names"] for crd in crds()]
    short = [name for names in every for name in names.get("shortNames", ())]

    assert len(set(short)) == len(short)
    assert not set(short) & {names["plural"] for names in every}
    assert {"gc", "gdp", "ghr", "ne", "net", "svcex", "svcim"} <= set(short)
    assert all("hanse" in names["categories"] for names in every)


def test_the_scale_of_a_federated_set_is_that_of_its_template() -> None:
    (crd,) = [c for c in crds() if c["spec"]["names"]["kind"] == "FederatedStatefulSet"]

    subresources = crd["spec"]["versions"][0]["subresources"]

    assert subresources["status"] == {}
    assert subresources["scale"] == {
        "specReplicasPath": ".spec.template.spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


def test_the_same_definitions_come_out_every_time() -> None:
    assert msgspec.json.encode(crds()) == msgspec.json.encode(crds())
    assert [crd["metadata"]["name"] for crd in crds()] == sorted(
        f"{kind.kind.plural}.{kind.kind.group}" for kind in OWN_KINDS
    )


def test_each_definition_is_a_value_of_its_own() -> None:
    first = crd_of(ServiceExport)
    first["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clear()

    assert root(ServiceExport)
    assert first["spec"]["versions"][1]["schema"]["openAPIV3Schema"]


def test_stand_ins_are_open_and_marked() -> None:
    assert len(placeholder_crds()) == len(FOREIGN_KINDS)
    for crd in placeholder_crds():
        (schema, *_) = [v["schema"]["openAPIV3Schema"] for v in crd["spec"]["versions"]]
        assert schema["x-kubernetes-preserve-unknown-fields"] is True
        assert crd["metadata"]["labels"][STAND_IN] == "true"
        assert "categories" not in crd["spec"]["names"]


def test_a_stand_in_crd_of_a_protected_group_is_annotated_as_unapproved() -> None:
    approvals = {
        crd["spec"]["group"]: crd["metadata"]
        .get("annotations", {})
        .get("api-approved.kubernetes.io")
        for crd in placeholder_crds()
    }

    assert approvals["about.k8s.io"] == approvals["externaldns.k8s.io"] == "unapproved, a stand-in"
    assert approvals["multicluster.x-k8s.io"] is None


def test_a_kind_of_others_has_no_definition_of_ours() -> None:
    with pytest.raises(TypeError, match="Service is not a kind that we define"):
        crd_of(Service)


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot say what"):
        structural_schema(set[int])
    with pytest.raises(TypeError, match="a union of"):
        structural_schema(int | bytes)


def test_later_annotations_add_to_earlier_ones() -> None:
    name = Annotated[str, Schema(pattern="^a", max_length=3)]

    assert structural_schema(Annotated[name, Schema("A name.")]) == {
        "description": "A name.",
        "type": "string",
        "pattern": "^a",
        "maxLength": 3,
    }


@pytest.mark.parametrize("kind", OWN_KINDS, ids=lambda kind: kind.__name__)
def test_the_struct_reads_all_that_a_good_object_says(kind: type[Object]) -> None:
    obj = msgspec.json.decode(msgspec.json.encode(good(kind)), type=kind)

    encoded = msgspec.json.decode(msgspec.json.encode(to_wire(obj)))

    assert set(paths(encoded)) == set(paths(good(kind))) - defaults(kind)


def paths(value: Any, at: str = "") -> Iterator[str]:
    match value:
        case dict():
            for key, child in value.items():
                yield from paths(child, f"{at}.{key}")
        case list():
            for child in value:
                yield from paths(child, f"{at}[]")
        case _:
            yield f"{at}={value}"


def defaults(kind: type[Object]) -> set[str]:
    """What a good object says that is so anyway."""
    return {
        f"{path.removeprefix(kind.__name__)}={node['default']}"
        for path, node in nodes(kind.__name__, root(kind))
        if "default" in node and not isinstance(node["default"], dict)
    }


def test_each_kind_has_a_good_example_and_a_bad_one() -> None:
    assert set(GOOD) == set(OWN_KINDS)
    assert {case.kind for case in BAD} == set(OWN_KINDS)


@pytest.mark.parametrize(
    "case",
    [case for case in BAD if case.by_rule or isinstance(case.value, int)],
    ids=lambda case: case.id,
)
def test_a_value_out_of_bounds_is_still_read_so_that_it_can_be_reported(case: Refused) -> None:
    obj = msgspec.json.decode(msgspec.json.encode(case.applied()), type=case.kind)

    assert obj.name == case.applied()["metadata"]["name"]
