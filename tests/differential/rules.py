"""Rules of CRD schemas in CEL, on creation, updates and the status."""

from typing import Any

from tests.differential.cases import CRDS, Case, Step, case, create, merge, obj
from tests.differential.definitions import GROUP, SHIP, SHIPS, crd, version

_TEXT = {"type": "string", "maxLength": 20}


def _rule(rule: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {"rule": rule, **({"message": message} if message else {}), **more}


SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["min"],
    "x-kubernetes-validations": [
        _rule("!has(self.max) || self.min <= self.max", "more than max", fieldPath=".min"),
        _rule("!has(self.__namespace__) || self.__namespace__ != 'sea'"),
        _rule(
            "!has(self.flag__dash__ship) || !self.flag__dash__ship",
            "none may",
            reason="FieldValueForbidden",
            fieldPath="['flag-ship']",
        ),
    ],
    "properties": {
        "min": {"type": "integer", "minimum": 0},
        "max": {"type": "integer"},
        "name": {**_TEXT, "x-kubernetes-validations": [_rule("self == oldSelf", "is for good")]},
        "namespace": _TEXT,
        "flag-ship": {"type": "boolean"},
        "crew": {
            "type": "array",
            "maxItems": 5,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name", "rank"],
                "properties": {"name": _TEXT, "rank": _TEXT},
                "x-kubernetes-validations": [
                    _rule(
                        "self.rank == oldSelf.rank",
                        messageExpression="'the rank of ' + self.name + ' is final'",
                    )
                ],
            },
        },
        "cargo": {
            "type": "array",
            "maxItems": 5,
            "items": {
                **_TEXT,
                "x-kubernetes-validations": [_rule("self != 'gold'", "no gold")],
            },
        },
        "tags": {
            "type": "object",
            "maxProperties": 5,
            "additionalProperties": {
                **_TEXT,
                "x-kubernetes-validations": [_rule("self.size() > 1", "too short")],
            },
        },
    },
}
STATUS = {
    "type": "object",
    "properties": {"depth": {"type": "integer"}, "draft": {"type": "integer"}},
    "x-kubernetes-validations": [_rule("self.depth >= self.draft", "aground")],
}
SCHEMA = {
    "type": "object",
    "properties": {"spec": SPEC, "status": STATUS},
    "x-kubernetes-validations": [
        _rule("self.metadata.name.startsWith('a')", "the name begins with a")
    ],
}


def _ship(spec: dict[str, Any], name: str = "anna") -> dict[str, Any]:
    return obj(f"{GROUP}/v1", "Ship", name, spec={"min": 1, **spec})


def _ruled(name: str, *steps: Step) -> Case:
    ruled = crd(version(schema={"openAPIV3Schema": SCHEMA}, subresources={"status": {}}))
    return case(f"rules: {name}", create(CRDS, ruled, setup=True), *steps)


def _without_keys() -> dict[str, Any]:
    """A schema whose rule needs old values of items that have none."""
    item = {**_TEXT, "x-kubernetes-validations": [_rule("self == oldSelf")]}
    cargo = {"type": "array", "maxItems": 5, "items": item}
    spec = {"type": "object", "properties": {"cargo": cargo}}
    return {"type": "object", "properties": {"spec": spec}}


_STATUS = f"{SHIP}/status"

_JAN, _KAI = {"name": "jan", "rank": "mate"}, {"name": "kai", "rank": "cook"}

CASES = (
    _ruled("an object that they hold for", create(SHIPS, _ship({"max": 2, "tags": {"a": "bc"}}))),
    _ruled("one does not hold, at a field", create(SHIPS, _ship({"max": 0}))),
    _ruled("a word of CEL, without a message", create(SHIPS, _ship({"namespace": "sea"}))),
    _ruled("a name with a dash, and a reason", create(SHIPS, _ship({"flag-ship": True}))),
    _ruled("of the whole object", create(SHIPS, _ship({}, "berta"))),
    _ruled("of values of a map", create(SHIPS, _ship({"tags": {"a": "b"}}))),
    _ruled("of items of a list", create(SHIPS, _ship({"cargo": ["wool", "gold"]}))),
    _ruled("not checked after other errors", create(SHIPS, _ship({"min": "x", "max": 0}))),
    _ruled("checked with an error of a minimum", create(SHIPS, _ship({"min": -1, "max": -2}))),
    _ruled(
        "over old values, of a field",
        create(SHIPS, _ship({"name": "anna"})),
        merge(SHIP, {"spec": {"name": "berta"}}),
        merge(SHIP, {"spec": {"name": None}}),
        merge(SHIP, {"spec": {"name": "berta"}}),
    ),
    _ruled(
        "over old values, of items with keys",
        create(SHIPS, _ship({"crew": [_JAN, _KAI]})),
        merge(SHIP, {"spec": {"crew": [_KAI, {**_JAN, "rank": "cook"}]}}),
        merge(SHIP, {"spec": {"crew": [_KAI, {**_JAN, "name": "lea"}]}}),
    ),
    case(
        "rules: over old values, of items without keys",
        create(CRDS, crd(version(schema={"openAPIV3Schema": _without_keys()}))),
    ),
    _ruled(
        "of the status, and one without a value",
        create(SHIPS, _ship({})),
        merge(_STATUS, {"status": {"depth": 1, "draft": 2}}),
        merge(_STATUS, {"status": {"depth": 1}}),
        merge(_STATUS, {"status": {"depth": 3, "draft": 2}}),
    ),
)
