"""Names on the broker are injective, valid, and say what they are about."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.model.naming import unique_name

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
labels = st.from_regex(LABEL, fullmatch=True).filter(lambda text: len(text) <= 63)


def test_a_dash_may_stand_in_either_part() -> None:
    assert unique_name("a-b", "c") != unique_name("a", "b-c")
    assert unique_name("a", "b", "c-d") != unique_name("a", "b-c", "d")


def test_long_names_that_differ_at_their_end_stay_apart_and_short() -> None:
    names = [unique_name("w" * 62 + end, "n" * 63, "c" * 63) for end in "abc"]

    assert len(set(names)) == 3
    assert all(len(name) <= 63 for name in names)


@settings(deadline=None, max_examples=60)
@given(st.tuples(labels, labels, labels), st.tuples(labels, labels, labels))
def test_names_are_valid_and_equal_only_for_equal_parts(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert LABEL.fullmatch(unique_name(*one))
    assert len(unique_name(*one)) <= 63
    assert (unique_name(*one) == unique_name(*other)) == (one == other)


@pytest.mark.parametrize("part", ["a/b", "a.b", "A_B", "a--b", "ä"])
def test_parts_that_no_name_may_contain_make_valid_names_all_the_same(part: str) -> None:
    assert LABEL.fullmatch(unique_name("web", part))
    assert unique_name("web", part) != unique_name("web", "a-b")


def test_a_name_begins_with_what_it_is_about() -> None:
    assert unique_name("web", "lubeck", "shop").startswith("web-lubeck-shop-")
