"""What is specific to a kind when its objects are written: defaults, preparation, validation."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from tinykube.errors import FieldError
from tinykube.resources import Object
from tinykube.validation import dns1123_subdomain_problems

Mutation = Callable[[Object], None]
"""Changes a new object in place."""


def _do_nothing(*_: Object) -> None:
    """Change nothing: the default of `default`, `prepare_for_create` and `prepare_for_update`."""
    return


def _no_errors(*_: Object) -> Iterable[FieldError]:
    """No errors: the default of `validate` and `validate_update`."""
    return ()


def _no_warnings(_: Object) -> Iterable[str]:
    """No warnings: the default of `warnings`."""
    return ()


class Strategy(Struct, frozen=True):
    """How objects of one kind are created, updated and deleted."""

    default: Mutation = _do_nothing
    prepare_for_create: Mutation = _do_nothing
    prepare_for_update: Callable[[Object, Object], None] = _do_nothing
    validate: Callable[[Object], Iterable[FieldError]] = _no_errors
    validate_update: Callable[[Object, Object], Iterable[FieldError]] = _no_errors
    warnings: Callable[[Object], Iterable[str]] = _no_warnings
    name_problems: Callable[[str], list[str]] = dns1123_subdomain_problems
    tracks_generation: bool = False
    """Whether metadata.generation counts the changes of the spec."""
    counts_annotations: bool = False
    """Whether a change of annotations increments the generation."""
    accepts_status_on_create: bool = False
    """Whether the status of a new object is kept."""
    allow_create_on_update: bool = False
    """Whether a PUT creates an object that does not exist."""
    allow_unconditional_update: bool = True
    """Whether an update may omit the resourceVersion."""
    returns_deleted_object: bool = False
    """Whether a DELETE answers with the object instead of a Status."""


DEFAULT_STRATEGY = Strategy()


def desired_state(obj: Object) -> Object:
    """A new dict of those top-level fields of an object whose changes increment its generation.

    These are all but kind, apiVersion, metadata and status; the values are not copied.
    """
    excluded = ("kind", "apiVersion", "metadata", "status")
    return {key: value for key, value in obj.items() if key not in excluded}
