"""Lines out of chunks, however the chunks fall."""

from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.kube.http_transport import split_lines
from tinykube.virtual_time import run

pytestmark = pytest.mark.anyio


async def chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def split(parts: Iterable[bytes]) -> list[bytes]:
    return [line async for line in split_lines(chunks(parts))]


@given(st.lists(st.binary(max_size=8).map(lambda part: part.replace(b"x", b"\n"))))
def test_how_the_chunks_fall_does_not_matter(parts: list[bytes]) -> None:
    assert run(split(parts)) == [line for line in b"".join(parts).split(b"\n") if line]


async def test_a_line_of_megabytes_comes_in_one_piece() -> None:
    parts = [b"x" * 65536] * 64 + [b"\nrest"]

    lines = await split(parts)

    assert [len(line) for line in lines] == [64 * 65536, 4]
