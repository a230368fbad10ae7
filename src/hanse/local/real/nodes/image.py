"""Container images as files, of static programs or of layers, without a registry or a daemon."""

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
    """An image: its name, what it holds, and how its program is run."""

    name: str
    programs: tuple[Path, ...]
    """Static programs, in the root folder."""
    entrypoint: tuple[str, ...]
    layers: tuple[Path, ...] = ()
    """Archives of files, the lowest first; below the programs."""
    user: str = ""
    environment: tuple[tuple[str, str], ...] = (("PATH", "/"),)
    command: tuple[str, ...] = ()
    labels: dict[str, str] = {}


def node_images(netcheck: Path) -> tuple[Image, ...]:
    """The images of every node, both with the program netcheck.

    One answers and makes connections, the other is the pause image of sandboxes.
    """
    return (
        Image(NETCHECK_IMAGE, (netcheck,), ("/netcheck",)),
        Image(PAUSE_IMAGE, (netcheck,), ("/netcheck", "pause")),
    )


def write_images(target: Path, images: Sequence[Image]) -> None:
    """Write a new archive that `ctr images import` and `docker load` read.

    Equal layers of several images are in it once. A file at `target` is replaced.
    """
    manifest = []
    with tarfile.open(target, "w") as archive:
        for image in images:
            layers = [path.read_bytes() for path in image.layers]
            if image.programs:
                layers.append(_layer(image.programs))
            digests = [_digest(layer) for layer in layers]
            for digest, layer in zip(digests, layers, strict=True):
                if _layer_name(digest) not in archive.getnames():
                    _add(archive, _layer_name(digest), layer)
            config = json.dumps(_config(image, digests)).encode()
            config_name = f"{_digest(config)}.json"
            _add(archive, config_name, config)
            names = [_layer_name(digest) for digest in digests]
            manifest.append({"Config": config_name, "RepoTags": [image.name], "Layers": names})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer_name(digest: str) -> str:
    """The path of a layer in the archive: `DIGEST/layer.tar`."""
    return f"{digest}/layer.tar"


def _config(image: Image, layers: Sequence[str]) -> dict[str, object]:
    """The configuration of an image with these layers' digests, for this machine's architecture."""
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "Entrypoint": list(image.entrypoint),
            "Cmd": list(image.command),
            "Env": [f"{name}={value}" for name, value in image.environment],
            "User": image.user,
            "Labels": image.labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}" for layer in layers]},
    }


def _layer(programs: Sequence[Path]) -> bytes:
    """A layer with the programs in the root folder, beside empty `etc` and `tmp`.

    It has the same bytes for the same programs.
    """
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
    """Add a regular file to an archive, with this content and mode, of root and at time 0."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _digest(content: bytes) -> str:
    """The SHA-256 of the content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
