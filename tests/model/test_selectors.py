"""Label selectors as `kubectl get -l` takes them."""

import pytest

from hanse.model.selectors import InvalidSelector, parse_selector, selects

LABELS = {"region": "eu", "example.com/tier": "gold"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("region=eu", True),
        ("region == eu , example.com/tier=gold", True),
        ("region!=eu", False),
        ("zone!=a", True),
        ("region in (us, eu)", True),
        ("region notin (us, eu)", False),
        ("region,!zone", True),
        ("!region", False),
        ("zone", False),
        ("region=", False),
    ],
)
def test_a_selector_is_read_and_matches(text: str, expected: bool) -> None:
    assert selects(parse_selector(text), LABELS) is expected


@pytest.mark.parametrize("text", ["region eu", "=eu", "region in eu", "a=b,,c", "a=b c"])
def test_what_is_no_selector_is_said_to_be_none(text: str) -> None:
    with pytest.raises(InvalidSelector, match="no condition on labels"):
        parse_selector(text)
