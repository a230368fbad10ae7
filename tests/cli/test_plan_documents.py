"""Parsing objects in files, and the errors of invalid ones."""

from pathlib import Path

import pytest

from hanse.cli.errors import InputError
from hanse.cli.plan.documents import parse_documents, read_documents

TWO = """\
# the shop
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
---
apiVersion: v1
kind: ConfigMap
metadata: {name: prices, namespace: shop}
data: {since: 2026-01-01}
"""


def test_each_document_knows_where_it_begins() -> None:
    found = parse_documents(TWO, "shop.yaml")

    assert [(one.at, one.namespace, one.name) for one in found] == [
        ("shop.yaml:2", "", "shop"),
        ("shop.yaml:7", "shop", "prices"),
    ]


def test_dates_stay_the_texts_that_they_are() -> None:
    assert parse_documents(TWO, "shop.yaml")[1].wire["data"] == {"since": "2026-01-01"}


def test_json_is_read_too_and_lists_are_opened() -> None:
    text = '{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod",'
    text += '"metadata":{"name":"a"}}]}'

    (found,) = parse_documents(text, "list.json")

    assert (found.at, found.name) == ("list.json:1: items[0]", "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "f: there is no object in it", id="empty"),
        pytest.param("---\n---\n", "f: there is no object in it", id="only separators"),
        pytest.param("a: b: c", "f:1: not YAML: mapping values are not allowed", id="no YAML"),
        pytest.param("---\n---\n\tb: 1", "f:3: not YAML: found character", id="a tab"),
        pytest.param("just text", "f:1: not an object but a str; begin with", id="a text"),
        pytest.param("kind: Pod", "f:1: apiVersion is missing", id="no version"),
        pytest.param("apiVersion: v1", "f:1: kind is missing", id="no kind"),
        pytest.param("apiVersion: 1\nkind: Pod", "f:1: apiVersion is missing", id="a number"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}",
            "f:1: metadata.name is missing; a plan needs names",
            id="no name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: [{kind: Pod}]",
            r"f:1: items\[0\]: apiVersion is missing",
            id="in a list",
        ),
    ],
)
def test_what_is_no_object_is_named_by_file_and_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        parse_documents(text, "f")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere cannot be read: No such file"):
        read_documents(str(tmp_path / "nowhere"))


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InputError, match="image cannot be read: it is not UTF-8"):
        read_documents(str(tmp_path / "image"))
