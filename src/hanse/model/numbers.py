"""Numbers in texts that others write, such as annotation values."""

LARGEST = 2**63 - 1
"""The largest integer of the Kubernetes API."""


def parse_number(text: str, most: int = LARGEST) -> int | None:
    """The number from 0 to `most` in a text of ASCII digits; None where it is not one.

    Nor is a text with more digits than `most` has: Python refuses texts of thousands of them.
    """
    plain = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if plain and int(text) <= most else None
