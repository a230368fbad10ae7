"""Admission webhooks: asked about every change that their rules name."""

from typing import Literal

from msgspec import Struct

from hanse.local.embedded.calls import Call
from hanse.local.embedded.resources import Object
from hanse.local.embedded.storage import Storage

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Event(Struct, frozen=True):
    """One change that is asked for: the object as it would be, and as it is."""

    call: Call
    operation: Operation
    object: Object | None
    old: Object | None


class Admission:
    """The webhooks that a cluster's configurations name."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def mutated(self, event: Event) -> Object:
        """The object as the mutating webhooks leave it."""
        return event.object or {}

    async def validated(self, event: Event) -> None:
        """Ask the validating webhooks; one that denies refuses the change."""
