"""Container images as files, made of static programs without a registry or a daemon."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

NETCHECK_IMAGE = "hanse.dev/netcheck:1"
PAUSE_IMAGE = "hanse.dev/pause:1"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Image(Struct, frozen=True):
    """An image: its name, its static programs, and its entrypoint."""

    name: str
    programs: tuple[Path, ...]
    entrypoint: tuple[str, ...]


def node_images(netcheck: Path) -> tuple[Image, ...]:
    """The images of every node: one that answers and makes connections, and that of sandboxes."""
    return (
        Image(NETCHECK_IMAGE, (netcheck,), ("/netcheck",)),
        Image(PAUSE_IMAGE, (netcheck,), ("/netcheck", "pause")),
    )


def write_images(target: Path, images: Sequence[Image]) -> None:
    """Write an archive that `ctr images import` and `docker load` read."""
    manifest = []
    with tarfile.open(target, "w") as archive:
        for image in images:
            layer = _layer(image.programs)
            config = json.dumps(_config(image, _digest(layer))).encode()
            layer_name, config_name = f"{_digest(layer)}/layer.tar", f"{_digest(config)}.json"
            if layer_name not in archive.getnames():
                _add(archive, layer_name, layer)
            _add(archive, config_name, config)
            manifest.append(
                {"Config": config_name, "RepoTags": [image.name], "Layers": [layer_name]}
            )
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _config(image: Image, layer: str) -> dict[str, object]:
    """The configuration of an image for this machine's architecture."""
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": list(image.entrypoint), "Env": ["PATH=/"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }


def _layer(programs: Sequence[Path]) -> bytes:
    """A layer with the programs in the root folder, the same bytes for the same programs."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for folder, mode in (("etc", 0o755), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            layer.addfile(entry)
        for program in programs:
            _add(layer, program.name, program.read_bytes(), 0o755)
    return content.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
