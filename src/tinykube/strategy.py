"""What a kind adds to the rules that hold for all: defaults, preparation, validation."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from tinykube.errors import FieldError
from tinykube.resources import Object
from tinykube.validation import subdomain_problems

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


class Rules(Struct, frozen=True):
    """One kind's rules; the defaults are those of a kind that has none of its own."""

    default: Shape = nothing
    prepare_create: Shape = nothing
    prepare_update: Callable[[Object, Object], None] = keep
    validate: Callable[[Object], Iterable[FieldError]] = faultless
    validate_update: Callable[[Object, Object], Iterable[FieldError]] = changeable
    warnings: Callable[[Object], Iterable[str]] = silent
    name_problems: Callable[[str], list[str]] = subdomain_problems
    generation: bool = False
    """Whether its objects count the changes of what is wanted."""
    annotations_count: bool = False
    """Whether a change of annotations counts as one."""
    keeps_status: bool = False
    """Whether a new object may bring its status."""
    update_creates: bool = False
    """Whether a PUT to a name that is free makes the object."""
    unconditional: bool = True
    """Whether a PUT may leave out the resourceVersion."""
    returns_deleted: bool = False
    """Whether a DELETE answers with the object and not with a Status."""


COMMON = Rules()


def wanted(obj: Object) -> Object:
    """The part of an object that its generation counts."""
    unwanted = ("kind", "apiVersion", "metadata", "status")
    return {key: value for key, value in obj.items() if key not in unwanted}
