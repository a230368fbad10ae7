"""Numbers in texts that others write."""

import pytest

from hanse.model.numbers import LARGEST, parse_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("100", 100, id="the-most"),
        pytest.param("101", None, id="more-than-the-most"),
        pytest.param("", None, id="empty"),
        pytest.param("-1", None, id="negative"),
        pytest.param("٣", None, id="a-digit-of-another-script"),
        pytest.param("9" * 5000, None, id="more-digits-than-python-reads"),
    ],
)
def test_a_number_is_read_up_to_the_most(text: str, number: int | None) -> None:
    assert parse_number(text, 100) == number


def test_without_a_limit_the_largest_is_that_of_the_api() -> None:
    assert parse_number(str(LARGEST)) == LARGEST
    assert parse_number(str(LARGEST + 1)) is None
