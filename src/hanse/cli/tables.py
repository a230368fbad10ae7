"""Plain text tables: columns as wide as their longest cell, two blanks between."""

from collections.abc import Iterable, Sequence

import click


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The table as text, header first, without trailing blanks; cells may contain colour codes.

    Raises `ValueError` for a row that has not as many cells as the header.
    """
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [
        max(len(click.unstyle(cell)) for cell in column) for column in zip(*lines, strict=True)
    ]
    return "\n".join(_format_row(cells, widths) for cells in lines)


def _format_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The cells padded to the widths, colour codes not counted, without trailing blanks."""
    padded = (
        cell + " " * (width - len(click.unstyle(cell)))
        for cell, width in zip(cells, widths, strict=True)
    )
    return "  ".join(padded).rstrip()
