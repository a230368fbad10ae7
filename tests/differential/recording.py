"""The answers of a real API server, kept so that every test run can compare with them."""

from pathlib import Path

import msgspec
from msgspec import Struct

from tests.differential.playing import Outcome

ANSWERS = Path(__file__).with_name("answers.jsonl")


class Recorded(Struct, frozen=True):
    """What a real server answered to a case."""

    case: str
    outcomes: list[Outcome]


def recorded() -> dict[str, list[Outcome]]:
    """All that was recorded, by case."""
    lines = ANSWERS.read_bytes().splitlines()
    return {one.case: one.outcomes for one in (_read(line) for line in lines)}


def record(answers: dict[str, list[Outcome]]) -> None:
    """Keep these answers in place of those that were kept, one case on each line."""
    encoder = msgspec.json.Encoder(order="sorted")
    lines = (encoder.encode(Recorded(name, answers[name])) for name in sorted(answers))
    ANSWERS.write_bytes(b"".join(line + b"\n" for line in lines))


def _read(line: bytes) -> Recorded:
    return msgspec.json.decode(line, type=Recorded)
