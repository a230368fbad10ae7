"""The recorded answers of a real API server."""

from pathlib import Path

import msgspec
from msgspec import Struct

from tests.differential.runner import NormalizedAnswer

ANSWERS = Path(__file__).with_name("answers.jsonl")


class Recorded(Struct, frozen=True):
    """The answers of a real server to one case."""

    case: str
    outcomes: list[NormalizedAnswer]


def recorded() -> dict[str, list[NormalizedAnswer]]:
    """The recorded answers by case."""
    lines = ANSWERS.read_bytes().splitlines()
    return {one.case: one.outcomes for one in (_read(line) for line in lines)}


def record(answers: dict[str, list[NormalizedAnswer]]) -> None:
    """Replace the recorded answers, one case per line."""
    encoder = msgspec.json.Encoder(order="sorted")
    lines = (encoder.encode(Recorded(name, answers[name])) for name in sorted(answers))
    ANSWERS.write_bytes(b"".join(line + b"\n" for line in lines))


def _read(line: bytes) -> Recorded:
    return msgspec.json.decode(line, type=Recorded)
