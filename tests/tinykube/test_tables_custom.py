"""Tables of custom resources, and the paths in their columns."""

from typing import Any

import pytest

from tests.tinykube.test_tables import NOW, ago, named
from tinykube.resources import Column, CustomVersion, Resource
from tinykube.tables import table
from tinykube.tables.jsonpath import BadPath, find


def custom(*columns: Column) -> Resource:
    return Resource(
        "example.com", "v1", "Ship", "ships", custom=CustomVersion(schema={}, columns=columns)
    )


def test_custom_resources_show_the_columns_of_their_definition() -> None:
    ship = named(
        "anna",
        spec={"masts": 3, "cargo": ["salt"], "sails": True, "speed": 7},
        status={"conditions": [{"type": "Ready", "status": "True"}], "left": ago(hours=1)},
    )
    columns = (
        Column("Masts", "integer", ".spec.masts"),
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Cargo", "string", ".spec.cargo", priority=1),
        Column("Sails", "boolean", ".spec.sails"),
        Column("Speed", "number", ".spec.speed"),
        Column("Left", "date", ".status.left"),
        Column("Absent", "string", ".spec.none"),
        Column("Wrong", "integer", ".spec.cargo"),
    )

    shown = table(custom(*columns), [ship], "None", NOW)

    assert shown["rows"][0]["cells"] == [
        "anna",
        3,
        "True",
        '["salt"]',
        True,
        7.0,
        "60m",
        None,
        None,
    ]
    assert [column["priority"] for column in shown["columnDefinitions"]][3] == 1


def test_a_custom_resource_without_columns_shows_its_age() -> None:
    shown = table(custom(), [named("anna")], "None", NOW)

    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Age"]
    assert shown["rows"][0]["cells"] == ["anna", "5m"]


TREE = {
    "list": [{"n": 1, "t": "a"}, {"n": 2, "t": "b"}, {"n": 3}],
    "labels": {"example.com/x": "y", "it's": 1},
    "empty": {},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".list[0].n", [1]),
        (".list[-1].n", [3]),
        (".list[9].n", []),
        (".list[*].n", [1, 2, 3]),
        ('.list[?(@.t=="b")].n', [2]),
        (".list[?(@.t!='b')].n", [1]),
        (".list[?(@.n==2)].t", ["b"]),
        (".list[?(@.t)].n", [1, 2]),
        (".labels['example.com/x']", ["y"]),
        (r".labels.example\.com/x", ["y"]),
        ('.labels["example.com/x"]', ["y"]),
        (".labels.*", ["y", 1]),
        (".empty.deep.er", []),
        ("", [TREE]),
    ],
)
def test_paths_lead_to_values(path: str, found: list[Any]) -> None:
    assert find(path, TREE) == found


@pytest.mark.parametrize("path", ["spec", ".a[", ".a[?(b)]", ".a[?(@.b==c)]", "..a", ".a b"])
def test_an_invalid_path_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        find(path, {})


def test_a_column_with_a_bad_path_is_empty() -> None:
    shown = table(custom(Column("Bad", "string", "spec")), [named("x")], "None", NOW)

    assert shown["rows"][0]["cells"] == ["x", None]
