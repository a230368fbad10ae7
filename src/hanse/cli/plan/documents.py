"""Objects in YAML or JSON files, as for `kubectl apply`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from hanse.cli.errors import InputError
from hanse.model.objects import Wire
from hanse.model.yaml_input import LOADER, MAX_BYTES, OversizedInput, check_yaml

STDIN = "-"


class Document(Struct, frozen=True):
    """One object, and the file and line where it begins."""

    at: str
    wire: Wire

    @property
    def name(self) -> str:
        """The object's metadata.name."""
        return str(self.wire["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The namespace in the file; "" if it names none."""
        return str(self.wire["metadata"].get("namespace") or "")


class _Loader(LOADER):  # type: ignore[misc]  # it is chosen at run time
    """Loads dates as strings, as Kubernetes does."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if not tag.endswith(":timestamp")]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_documents(file: str) -> list[Document]:
    """The objects in a file, or in stdin for `-`, in order.

    Raises `InputError`, with file and line, if it cannot be read or parsed, or has no object.
    """
    if file == STDIN:
        return parse_documents(sys.stdin.read(MAX_BYTES + 1), "stdin")
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(
            f"{file} cannot be read: {why}; name a file, or - for what is piped in"
        ) from None
    return parse_documents(text, file)


def parse_documents(text: str, origin: str) -> list[Document]:
    """The objects in a YAML text; empty documents are skipped, Lists are expanded.

    Raises `InputError`, with origin and line, for what is not YAML, no object or too large, or if
    there is no object at all.
    """
    try:
        found = [one for at, value in _parsed(text, origin) for one in _objects(value, at)]
    except OversizedInput as error:
        mark = error.problem_mark
        at = f"{origin}:{mark.line + 1}" if mark is not None else origin
        raise InputError(f"{at}: {error.problem}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f"{origin}:{mark.line + 1}" if mark is not None else origin
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise InputError(f"{at}: not YAML: {problem}; mend that line") from None
    except ValueError as error:  # a number that only looks like one
        raise InputError(f"{origin}: not YAML: {error}; quote that value") from None
    if not found:
        raise InputError(f"{origin}: there is no object in it; write one as for kubectl apply")
    return found


def _parsed(text: str, origin: str) -> Iterator[tuple[str, Any]]:
    """Each YAML document of a text with `ORIGIN:LINE`, where it begins; None for an empty one.

    The whole text is checked before the first. Raises `yaml.YAMLError`, or `ValueError` for what
    only looks like a number.
    """
    check_yaml(text)
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "it was just seen to be there"
            yield f"{origin}:{node.start_mark.line + 1}", loader.construct_document(node)
    finally:
        loader.dispose()


def _objects(value: Any, at: str) -> Iterator[Document]:
    """The objects in a document: itself, the items of a List, or none if it is empty.

    Raises `InputError` for what is not an object, or lacks apiVersion, kind or metadata.name.
    """
    if value is None:
        return
    if not isinstance(value, dict):
        raise InputError(f"{at}: not an object but a {type(value).__name__}; begin with apiVersion")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise InputError(f"{at}: {field} is missing; every object has one")
    if value["kind"] == "List" and isinstance(value.get("items"), list):
        for number, item in enumerate(value["items"]):
            yield from _objects(item, f"{at}: items[{number}]")
        return
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise InputError(f"{at}: metadata.name is missing; a plan needs names, not generateName")
    yield Document(at, value)
