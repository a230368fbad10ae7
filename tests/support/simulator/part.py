"""A part of the simulator: the actions of one feature's users, its hazards and its laws."""

from collections.abc import Sequence
from typing import Protocol

from tests.support.simulator.fleet import Fleet
from tests.support.simulator.laws import Law


class Part(Protocol):
    """What one feature adds; methods marked with `step` are its steps."""

    name: str

    def __init__(self, fleet: Fleet) -> None: ...

    async def open(self) -> None:
        """Create what an administrator creates before agents start."""
        ...

    async def heal(self) -> None:
        """Undo the part's own faults before the fleet is judged at rest."""
        ...

    def laws(self) -> Sequence[Law]:
        """The laws of the feature."""
        ...
