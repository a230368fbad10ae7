"""Lines out of chunks, as cheap for one line of three megabytes as for a thousand short ones."""

from collections.abc import AsyncIterator


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Every whole line without its end; a last one without an end too, and no empty ones."""
    begun: list[bytes] = []
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        if whole:
            begun.append(whole[0])
            whole[0] = b"".join(begun)
            begun = []
        if rest:
            begun.append(rest)
        for line in whole:
            if line:
                yield line
    if begun:
        yield b"".join(begun)
