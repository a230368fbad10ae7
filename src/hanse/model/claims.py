"""Who says that an object is his, as it stands on the object itself; whether he is right is not."""

import msgspec
from msgspec import Struct

from hanse.model.labels import OWNER_KEY
from hanse.model.objects import Object


class Claim(Struct, frozen=True, omit_defaults=True, rename={"serves": "for"}):
    """The owner-key annotation: the decision, whom it serves, and what it was written on."""

    feature: str
    key: str
    serves: str
    kind: str
    namespace: str
    name: str
    led: bool = False


def claim_in(told: str) -> Claim | None:
    """The claim that a text holds, if it is one."""
    try:
        return msgspec.json.decode(told, type=Claim) if told else None
    except msgspec.DecodeError:
        return None


def claim_on(obj: Object) -> Claim | None:
    """The claim that stands on an object."""
    return claim_in(obj.metadata.annotations.get(OWNER_KEY, ""))
