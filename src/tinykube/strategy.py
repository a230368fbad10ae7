"""What a kind adds to the rules that hold for all: defaults, preparation, validation."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from tinykube.errors import FieldError
from tinykube.resources import Object
from tinykube.validation import dns1123_subdomain_problems

Shape = Callable[[Object], None]
"""Changes a fresh object in place."""


def nothing(_: Object) -> None:
    """Leave the object as it is."""


def keep(_new: Object, _old: Object) -> None:
    """Leave the new object as it is."""


def faultless(_: Object) -> Iterable[FieldError]:
    """Find nothing wrong."""
    return ()


def changeable(_new: Object, _old: Object) -> Iterable[FieldError]:
    """Find nothing wrong with any change."""
    return ()


def silent(_: Object) -> Iterable[str]:
    """Say nothing to the author of a new object."""
    return ()


class Strategy(Struct, frozen=True):
    """One kind's rules; the defaults are those of a kind that has none of its own."""

    default: Shape = nothing
    prepare_for_create: Shape = nothing
    prepare_for_update: Callable[[Object, Object], None] = keep
    validate: Callable[[Object], Iterable[FieldError]] = faultless
    validate_update: Callable[[Object, Object], Iterable[FieldError]] = changeable
    warnings: Callable[[Object], Iterable[str]] = silent
    name_problems: Callable[[str], list[str]] = dns1123_subdomain_problems
    tracks_generation: bool = False
    """Whether its objects count the changes of what is wanted."""
    counts_annotations: bool = False
    """Whether a change of annotations counts as one."""
    accepts_status_on_create: bool = False
    """Whether a new object may bring its status."""
    allow_create_on_update: bool = False
    """Whether a PUT to a name that is free makes the object."""
    allow_unconditional_update: bool = True
    """Whether a PUT may leave out the resourceVersion."""
    returns_deleted_object: bool = False
    """Whether a DELETE answers with the object and not with a Status."""


DEFAULT_STRATEGY = Strategy()


def wanted(obj: Object) -> Object:
    """The part of an object that its generation counts."""
    unwanted = ("kind", "apiVersion", "metadata", "status")
    return {key: value for key, value in obj.items() if key not in unwanted}
