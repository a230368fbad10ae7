"""Who says that an object is his, as it stands on the object itself; whether he is right is not."""

import msgspec
from msgspec import Struct

from hanse.model.labels import OWNER_KEY
from hanse.model.objects import Object


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
