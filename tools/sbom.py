"""The software bill of materials of what is shipped, as CycloneDX JSON: `python -m tools.sbom`."""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from hanse import __version__

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-runtime.lock"

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_REQUIRED = re.compile(r"^([A-Za-z0-9._-]+)")
_NAMESPACE = uuid.UUID("6b1f7a52-6c36-5a55-9b53-4d1f6a1f0b5e")


def bill_of_materials(lock: str) -> dict[str, Any]:
    """The bill for a lock file; the same lock gives the same bytes."""
    pinned = {_normal(m[1]): m[2] for m in _PINNED.finditer(lock)}
    hashes = _hashes(lock)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = {
        "type": "application",
        "bom-ref": f"pkg:pypi/hanse@{__version__}",
        "name": "hanse",
        "version": __version__,
        "purl": f"pkg:pypi/hanse@{__version__}",
        "licenses": [{"license": {"id": project["license"]}}],
    }
    direct = [_normal(found[1]) for d in project["dependencies"] if (found := _REQUIRED.match(d))]
    graph = [
        {"ref": own["bom-ref"], "dependsOn": [_ref(n, pinned) for n in sorted(direct)]},
        *(
            {"ref": _ref(n, pinned), "dependsOn": [_ref(d, pinned) for d in _needs(n, pinned)]}
            for n in sorted(pinned)
        ),
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, __version__ + lock)}",
        "version": 1,
        "metadata": {"component": own},
        "components": [_component(name, pinned, hashes) for name in sorted(pinned)],
        "dependencies": graph,
    }


def _component(
    name: str, pinned: dict[str, str], hashes: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    """A distribution; the hashes are those of all its files that the lock allows."""
    licence = _licence(name)
    return {
        "type": "library",
        "bom-ref": _ref(name, pinned),
        "name": name,
        "version": pinned[name],
        "purl": _ref(name, pinned),
        **({"licenses": [licence]} if licence else {}),
        "hashes": [{"alg": "SHA-256", "content": one} for one in hashes[name]],
    }


def _licence(name: str) -> dict[str, Any] | None:
    """The licence that an installed distribution states; None for what is not installed here."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if "License-Expression" in about:
        expression = about["License-Expression"]
        return {"expression": expression} if " " in expression else {"license": {"id": expression}}
    text = about["License"].strip().splitlines() if "License" in about else []
    return {"license": {"name": text[0][:80]}} if text else None


def _needs(name: str, pinned: dict[str, str]) -> list[str]:
    """The pinned distributions that one requires, without extras."""
    try:
        required = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    plain = (r for r in required if "extra ==" not in r)
    found = {_normal(m[1]) for r in plain if (m := _REQUIRED.match(r))}
    return sorted(found & pinned.keys())


def _hashes(lock: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(_HASH.findall(text)) for name, text in _entries(lock)}


def _entries(lock: str) -> Iterator[tuple[str, str]]:
    """Each pinned distribution, with the text of the lock that belongs to it."""
    starts = [*_PINNED.finditer(lock)]
    ends = [*(m.start() for m in starts[1:]), len(lock)]
    for found, end in zip(starts, ends, strict=True):
        yield _normal(found[1]), lock[found.start() : end]


def _ref(name: str, pinned: dict[str, str]) -> str:
    return f"pkg:pypi/{name}@{pinned[name]}"


def _normal(name: str) -> str:
    """The name as package indexes normalise it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    json.dump(bill_of_materials(LOCK.read_text()), sys.stdout, indent=2)
    sys.stdout.write("\n")
