"""Image archives, as containerd reads them."""

import hashlib
import json
import tarfile
from pathlib import Path

from hanse.local.real.nodes.image import Image, node_images, write_images


def test_an_archive_has_each_image_by_name_with_its_layer(tmp_path: Path) -> None:
    program = tmp_path / "netcheck"
    program.write_bytes(b"static program")
    target = tmp_path / "images.tar"

    write_images(target, node_images(program))

    with tarfile.open(target) as archive:
        manifest = json.load(_member(archive, "manifest.json"))
        configs = [json.load(_member(archive, one["Config"])) for one in manifest]
        layers = {one["Layers"][0] for one in manifest}
        digests = {hashlib.sha256(_member(archive, name).read()).hexdigest() for name in layers}
    assert [one["RepoTags"] for one in manifest] == [
        ["hanse.dev/netcheck:1"],
        ["hanse.dev/pause:1"],
    ]
    assert [one["config"]["Entrypoint"] for one in configs] == [
        ["/netcheck"],
        ["/netcheck", "pause"],
    ]
    assert {one["rootfs"]["diff_ids"][0] for one in configs} == {f"sha256:{d}" for d in digests}


def test_the_programs_of_an_image_can_be_executed(tmp_path: Path) -> None:
    program = tmp_path / "etcd"
    program.write_bytes(b"static program")
    target = tmp_path / "images.tar"

    write_images(target, [Image("hanse.dev/etcd:1", (program,), ("/etcd",))])

    with tarfile.open(target) as archive:
        layer = next(name for name in archive.getnames() if name.endswith("layer.tar"))
        with tarfile.open(fileobj=_member(archive, layer)) as files:
            assert files.getmember("etcd").mode == 0o755


def _member(archive: tarfile.TarFile, name: str) -> "tarfile.ExFileObject":
    found = archive.extractfile(name)
    assert isinstance(found, tarfile.ExFileObject)
    return found
