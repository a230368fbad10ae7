"""CustomResourceDefinitions and the objects they define."""

from typing import Any

from tests.differential.cases import (
    CRDS,
    RV,
    TABLE,
    Case,
    Step,
    case,
    create,
    delete,
    get,
    grouped,
    json_patch,
    merge,
    obj,
    put,
    strategic,
    watch,
)

GROUP = "$ns.example.com"
SHIPS = f"/apis/{GROUP}/v1/namespaces/$ns/ships"
SHIP = f"{SHIPS}/anna"
CRD = f"{CRDS}/ships.{GROUP}"

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["masts"],
    "properties": {
        "masts": {"type": "integer", "minimum": 1, "maximum": 5},
        "name": {"type": "string", "minLength": 2, "maxLength": 8, "pattern": "^[a-z]+$"},
        "rig": {"type": "string", "enum": ["square", "gaff"], "default": "gaff"},
        "speed": {"type": "number"},
        "sails": {"type": "boolean"},
        "cargo": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "crew": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "rank": {"type": "string", "default": "sailor"},
                },
            },
        },
        "ports": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "draft": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "none": {"type": "string", "nullable": True},
        "since": {"type": "string", "format": "date-time"},
        "either": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "replicas": {"type": "integer"},
    },
}
STATUS = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "state": {"type": "string"},
        "selector": {"type": "string"},
    },
}
SCHEMA = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}


def version(name: str = "v1", **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Masts", "type": "integer", "jsonPath": ".spec.masts"},
            {"name": "State", "type": "string", "jsonPath": ".status.state", "priority": 1},
        ],
        **fields,
    }


def crd(*given: dict[str, Any], name: str = f"ships.{GROUP}", **spec: Any) -> dict[str, Any]:
    whole = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "ships", "kind": "Ship", "shortNames": ["sh"]},
        "versions": list(given or (version(),)),
        **spec,
    }
    return obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec=whole)


def ship(**spec: Any) -> dict[str, Any]:
    return obj(f"{GROUP}/v1", "Ship", "anna", spec={"masts": 3, **spec})


# The API server serves a definition's objects a moment after it was created.
DEFINED: tuple[Step, ...] = (
    create(CRDS, crd()),
    watch(CRDS, fieldSelector=f"metadata.name=ships.{GROUP}"),
)


def sailing(name: str, *steps: Step) -> Case:
    return case(name, create(CRDS, crd(), setup=True), *steps)


def one(name: str, spec: dict[str, Any]) -> Case:
    return sailing(name, create(SHIPS, ship(**spec)))


OBJECTS = (
    sailing("defaults are filled in", create(SHIPS, ship()), get(SHIP)),
    sailing(
        "what the schema does not know is dropped",
        create(SHIPS, ship(unknown=1, free={"x": {"y": 1}})),
    ),
    sailing(
        "an unknown field, strictly",
        create(SHIPS, ship(unknown=1), query={"fieldValidation": "Strict"}),
    ),
    sailing(
        "an unknown field, warned about",
        create(SHIPS, ship(crew=[{"name": "a", "x": 1}]), query={"fieldValidation": "Warn"}),
    ),
    sailing("no spec", create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna"))),
    sailing("a table", create(SHIPS, ship()), get(SHIPS, accept=TABLE)),
    sailing(
        "a status",
        create(SHIPS, ship()),
        merge(f"{SHIP}/status", {"spec": {"masts": 5}, "status": {"state": "out"}}),
        get(SHIP),
    ),
    sailing("a status is not created", create(SHIPS, {**ship(), "status": {"state": "out"}})),
    sailing(
        "the generation",
        create(SHIPS, ship()),
        merge(SHIP, {"spec": {"masts": 4}}),
        merge(SHIP, {"metadata": {"labels": {"a": "b"}}}),
    ),
    sailing(
        "a scale",
        create(SHIPS, ship(replicas=2)),
        get(f"{SHIP}/scale"),
        merge(f"{SHIP}/scale", {"spec": {"replicas": 5}}),
        get(SHIP),
    ),
    sailing(
        "a json patch",
        create(SHIPS, ship(cargo=["salt"])),
        json_patch(SHIP, {"op": "add", "path": "/spec/cargo/-", "value": "wool"}),
    ),
    sailing(
        "a json patch that breaks the schema",
        create(SHIPS, ship()),
        json_patch(SHIP, {"op": "replace", "path": "/spec/masts", "value": "x"}),
    ),
    sailing("a strategic patch", create(SHIPS, ship()), strategic(SHIP, {"spec": {"masts": 2}})),
    sailing("a put without a version", create(SHIPS, ship()), put(SHIP, ship(masts=4))),
    sailing(
        "a put with a version",
        create(SHIPS, ship(), save=RV),
        put(SHIP, {**ship(masts=4), "metadata": {"name": "anna", "resourceVersion": "$rv"}}),
    ),
    sailing("a kind that is another", create(SHIPS, {**ship(), "kind": "Boat"})),
    sailing("a version that is another", create(SHIPS, {**ship(), "apiVersion": f"{GROUP}/v2"})),
    sailing("a bad name", create(SHIPS, {**ship(), "metadata": {"name": "Anna"}})),
    sailing("a collection deleted", create(SHIPS, ship()), delete(SHIPS), get(SHIPS)),
    one("a wrong type", {"masts": "three"}),
    one("too few", {"masts": 0}),
    one("too many", {"masts": 9}),
    one("a fraction", {"masts": 1.5}),
    one("too short", {"name": "a"}),
    one("too long", {"name": "abcdefghijk"}),
    one("not the pattern", {"name": "Anna"}),
    one("not in the list", {"rig": "steam"}),
    one("a list for a string", {"name": ["a"]}),
    one("an object for a list", {"cargo": {}}),
    one("too many items", {"cargo": ["a", "b", "c"]}),
    one("an item of a wrong type", {"cargo": ["a", 1]}),
    one("a key twice in a map", {"crew": [{"name": "a"}, {"name": "a"}]}),
    one("a key missing in a map", {"crew": [{"rank": "x"}]}),
    one("defaults inside lists", {"crew": [{"name": "a"}]}),
    one("twice in a set", {"ports": ["a", "a"]}),
    one("an int or a string", {"draft": "3m"}),
    one("neither int nor string", {"draft": True}),
    one("null where it may be", {"none": None}),
    one("null where a default is", {"rig": None}),
    one("null where it may not be", {"name": None}),
    one("a time", {"since": "2026-01-02T03:04:05Z"}),
    one("no time", {"since": "yesterday"}),
    one("one of two", {"either": {"a": "x"}}),
    one("both of two", {"either": {"a": "x", "b": "y"}}),
    one("neither of two", {"either": {}}),
    one("a tag of a wrong type", {"tags": {"a": 1}}),
    one("a number", {"speed": 3}),
)

DEFINITIONS = (
    case("a definition and its conditions", *DEFINED),
    case("a name that does not fit", create(CRDS, crd(name="boats.$ns.example.com"))),
    case("no versions", create(CRDS, crd(versions=[]))),
    case("two stored versions", create(CRDS, crd(version(), version("v2")))),
    case("no stored version", create(CRDS, crd(version(storage=False)))),
    case("no schema", create(CRDS, crd(version(schema=None)))),
    case(
        "a schema that is not structural",
        create(
            CRDS,
            crd(
                version(
                    schema={
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"a": {"properties": {}}},
                        }
                    }
                )
            ),
        ),
    ),
    case("a scope unknown", create(CRDS, crd(scope="Sea"))),
    case(
        "a bad column",
        create(
            CRDS,
            crd(
                version(additionalPrinterColumns=[{"name": "A", "type": "ship", "jsonPath": ".a"}])
            ),
        ),
    ),
    case(
        "a bad default",
        create(
            CRDS,
            crd(
                version(
                    schema={
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"a": {"type": "integer", "default": "x"}},
                        }
                    }
                )
            ),
        ),
    ),
    case(
        "the group does not change",
        DEFINED[0],
        merge(CRD, {"spec": {"group": "other.example.com"}}),
    ),
    case("the scope does not change", DEFINED[0], merge(CRD, {"spec": {"scope": "Cluster"}})),
    case(
        "two served versions",
        create(CRDS, crd(version(), version("v1beta1", storage=False))),
        create(SHIPS, ship()),
        get(f"/apis/{GROUP}/v1beta1/namespaces/$ns/ships/anna"),
    ),
    case(
        "no subresources",
        create(CRDS, crd(version(subresources=None))),
        create(SHIPS, {**ship(), "status": {"state": "out"}}),
        get(f"{SHIP}/status"),
        merge(SHIP, {"status": {"state": "in"}}),
    ),
)

CASES = [*grouped("custom", OBJECTS), *grouped("definition", DEFINITIONS)]
