"""What is said of a schedule that broke a law: the failure, and a test to paste."""

from msgspec import Struct

from tests.support.simulator.faults import Faults
from tests.support.simulator.forks import StartedFleets
from tests.support.simulator.part import Part
from tests.support.simulator.runner import PARTS, Failure
from tests.support.simulator.schedule import Schedule
from tests.support.simulator.shrink import shrink


class Played(Struct, frozen=True):
    """A schedule that was played, and the law that it broke."""

    schedule: Schedule
    failure: Failure | None
    parts: tuple[type[Part], ...]


def shrunk(played: Played, fleets: StartedFleets) -> Played:
    """The smallest schedule found that breaks the same law."""
    failure, parts = played.failure, played.parts
    assert failure is not None, "there is a law that it broke"
    law = failure.law

    def breaks(smaller: Schedule) -> bool:
        found = fleets.failure_of(smaller, parts)
        return found is not None and found.law == law

    schedule = shrink(played.schedule, breaks)
    return Played(schedule, fleets.failure_of(schedule, parts) or failure, parts)


def report(played: Played) -> str:
    """The failure, and a test to paste."""
    schedule, failure, parts = played.schedule, played.failure, played.parts
    assert failure is not None, "there is something to report"
    name = failure.law.replace("-", "_")
    names = [part.name for part in parts if part is not Faults]
    written = str(schedule).removesuffix("\n    )")
    chosen = "" if parts == PARTS else f"\n        parts=parts_named({names}),"
    return f"{failure}\n\ndef test_{name}_{schedule.seed}() -> None:\n{written}{chosen}\n    )\n"
