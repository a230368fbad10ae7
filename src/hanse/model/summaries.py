"""Lists in messages: the first items, and how many more there are."""

from collections.abc import Sequence


def first_of(texts: Sequence[str], most: int = 3) -> str:
    """The first texts, and how many more there are: `a, b, c and 2 more`."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")
