"""Labels and annotations of owned objects, and the owner that they name."""

from hashlib import blake2b

import msgspec
from msgspec import Struct

from hanse.model.json_input import decode_json
from hanse.model.objects import ClusterId, Object

OWN_PREFIX = "hanse.dev/"
"""The prefix of our own labels and annotations, which are never replicated."""

OWNER = "hanse.dev/owner"
"""Label of every object that the runtime owns."""
OWNER_KEY = "hanse.dev/owner-key"
SOURCES = "hanse.dev/sources"
APPLIED = "hanse.dev/applied"
EPOCH = "hanse.dev/epoch"

PAUSED = "hanse.dev/paused"
"""Annotation of an object, or of the system namespace, that stops writes."""
ALLOW_MASS_DELETION = "hanse.dev/allow-mass-deletion"
"""Annotation of the system namespace: features (comma-separated, or `*`) that may mass-delete."""


class OwnerClaim(Struct, frozen=True, omit_defaults=True, rename={"serves": "for"}):
    """The owner-key annotation: feature and key, the cluster served, and the object's own name."""

    feature: str
    key: str
    serves: str
    kind: str
    namespace: str
    name: str
    led: bool = False


def owner_label(feature: str, key: str, serves: ClusterId, *, led: bool = False) -> str:
    """The value of label hanse.dev/owner: the feature and a hash of all that names the owner."""
    by = "\nleader" if led else ""
    content = f"{feature}\n{key}\n{serves}{by}".encode()
    return f"{feature}-{blake2b(content, digest_size=8).hexdigest()}"


def parse_owner_claim(text: str) -> OwnerClaim | None:
    """Parse an owner-key annotation; None if it is not one."""
    try:
        return decode_json(text, type=OwnerClaim) if text else None
    except msgspec.DecodeError:
        return None


def owner_claim(obj: Object) -> OwnerClaim | None:
    """The owner in an object's annotation, unchecked; None if it has none or it is invalid."""
    return parse_owner_claim(obj.metadata.annotations.get(OWNER_KEY, ""))


def is_owned_by(obj: Object, feature: str, key: str, serves: ClusterId) -> bool:
    """Whether an object's owner claim is this one, and was written on this object.

    False for a claim as a leader (`led`).
    """
    kind, meta = str(type(obj).kind), obj.metadata
    return owner_claim(obj) == OwnerClaim(feature, key, serves, kind, meta.namespace, meta.name)


def is_paused(obj: Object) -> bool:
    """Whether annotation hanse.dev/paused is set and not `false`: we never write the object."""
    return obj.metadata.annotations.get(PAUSED, "false") != "false"
