"""What stands on objects for our own sake: whose they are, and what people say about that."""

import msgspec
from msgspec import Struct

from hanse.model.objects import Object

OWN_PREFIX = "hanse.dev/"
"""The prefix of our bookkeeping: never replicated from one object to another."""

OWNER = "hanse.dev/owner"
"""Label of everything that the engine owns."""
OWNER_KEY = "hanse.dev/owner-key"
SOURCES = "hanse.dev/sources"
APPLIED = "hanse.dev/applied"
EPOCH = "hanse.dev/epoch"

PAUSED = "hanse.dev/paused"
"""Annotation of an object, or of the system namespace: nothing is written."""
ALLOW_MASS_DELETION = "hanse.dev/allow-mass-deletion"
"""Annotation on the system namespace: features (comma-joined, or `*`) whose holds are lifted."""


class OwnerClaim(Struct, frozen=True, omit_defaults=True, rename={"serves": "for"}):
    """The owner-key annotation: the decision, whom it serves, and what it was written on."""

    feature: str
    key: str
    serves: str
    kind: str
    namespace: str
    name: str
    led: bool = False


def parse_owner_claim(told: str) -> OwnerClaim | None:
    """The claim that a text holds, if it is one."""
    try:
        return msgspec.json.decode(told, type=OwnerClaim) if told else None
    except msgspec.DecodeError:
        return None


def owner_claim(obj: Object) -> OwnerClaim | None:
    """The claim that stands on an object."""
    return parse_owner_claim(obj.metadata.annotations.get(OWNER_KEY, ""))
