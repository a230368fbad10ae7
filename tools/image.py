"""`make image`: the image of the Dockerfile without a daemon or a registry, as a tar file.

The base is made of Debian's packages by mmdebstrap, the rest of `requirements-runtime.lock` and the
wheel of this source. `docker load`, `ctr images import` and `hanse up --image` read the result.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from hanse import __version__
from hanse.cli.manifests.workloads import NON_ROOT_USER
from hanse.local.real.nodes.image import Image, write_images

SOURCE = Path(__file__).parent.parent
LOCK = SOURCE / "requirements-runtime.lock"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = (f"{PYTHON}-minimal", f"lib{PYTHON}-stdlib", "ca-certificates", "libnftables1")
IMAGE = "hanse"
_SITE = Path("hanse/lib") / PYTHON / "site-packages"
_OF_THE_BUILDER = ("etc/hostname", "etc/resolv.conf", "etc/apt")
_CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")


def main() -> None:
    """Write dist/hanse-image.tar."""
    target = SOURCE / "dist" / "hanse-image.tar"
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runtime, own = Path(folder) / "runtime.tar", Path(folder) / "hanse.tar"
        write_runtime_layer(runtime)
        write_own_layer(own)
        write_images(target, [hanse_image(runtime, own)])
    sys.stdout.write(f"==> {target.relative_to(SOURCE)}: {IMAGE}:{__version__}\n")


def hanse_image(runtime: Path, own: Path, name: str = f"{IMAGE}:{__version__}") -> Image:
    """The image of two layers; as in the Dockerfile."""
    return Image(
        name,
        (),
        ("hanse",),
        layers=(runtime, own),
        user=f"{NON_ROOT_USER}:{NON_ROOT_USER}",
        environment=(
            ("PATH", "/hanse/bin:/usr/bin:/bin"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("PYTHONUNBUFFERED", "1"),
        ),
        command=("--help",),
        labels={
            "org.opencontainers.image.title": "hanse",
            "org.opencontainers.image.description": "A federation control plane for Kubernetes",
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    )


def write_runtime_layer(target: Path) -> None:
    """Write the layer of Python and all that we depend on."""
    if shutil.which("mmdebstrap") is None:
        sys.exit("mmdebstrap is missing; install it, as by `apt-get install mmdebstrap`")
    with tempfile.TemporaryDirectory() as folder:
        base, root = Path(folder) / "base.tar", Path(folder) / "root"
        include = f"--include={','.join(PACKAGES)}"
        _run("mmdebstrap", "--quiet", "--variant=extract", include, _suite(), str(base))
        with tarfile.open(base) as archive:
            archive.extractall(root, filter="tar", members=_files(archive))
        for stale in _OF_THE_BUILDER:
            shutil.rmtree(root / stale, ignore_errors=True)
            (root / stale).unlink(missing_ok=True)
        _write_certificates(root)
        _install(root, "--require-hashes", "--requirement", str(LOCK))
        _write_environment(root)
        _compile(root / "usr/lib" / PYTHON, root / _SITE)
        _pack(root, target)


def write_own_layer(target: Path) -> None:
    """Write the layer of our own wheel."""
    with tempfile.TemporaryDirectory() as folder:
        root, wheels = Path(folder) / "root", Path(folder) / "wheels"
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
        _run(sys.executable, "-m", "pip", "wheel", *options, "-w", str(wheels), str(SOURCE))
        [wheel] = wheels.glob("hanse-*.whl")
        (root / _SITE).mkdir(parents=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root / _SITE)
        _compile(root / _SITE)
        _write_program(root / "hanse/bin/hanse")
        _pack(root, target)


def _suite() -> str:
    """The name of this Debian, whose packages fit this Python."""
    release = Path("/etc/os-release").read_text()
    found = re.search(r"^VERSION_CODENAME=(\w+)$", release, re.MULTILINE)
    if found is None:
        sys.exit("the image is made of Debian's packages; build it on Debian")
    return found[1]


def _files(archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """The members but devices, which containers have of their own."""
    return [one for one in archive if not one.isdev() or one.isfile() or one.isdir()]


def _install(root: Path, *requirements: str) -> None:
    """Install distributions into the image."""
    options = ("--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check")
    target = ("--no-compile", "--target", str(root / _SITE))
    _run(sys.executable, "-m", "pip", "install", *options, *target, *requirements)
    shutil.rmtree(root / _SITE / "bin", ignore_errors=True)


def _write_certificates(root: Path) -> None:
    """Write the file of trusted authorities, as `update-ca-certificates` does."""
    trusted = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    (root / _CERTIFICATES).write_bytes(b"".join(one.read_bytes() for one in trusted))


def _write_environment(root: Path) -> None:
    """Make a virtual environment of the folder."""
    programs = root / "hanse/bin"
    programs.mkdir(parents=True)
    (root / "hanse/pyvenv.cfg").write_text("home = /usr/bin\n")
    (programs / "python").symlink_to(f"/usr/bin/{PYTHON}")


def _write_program(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("#!/hanse/bin/python\nfrom hanse.cli import main\n\nmain()\n")
    path.chmod(0o755)


def _compile(*folders: Path) -> None:
    """Write bytecode that is never compared with its source: nothing changes there."""
    options = ("-q", "-q", "--invalidation-mode", "unchecked-hash")
    _run(sys.executable, "-m", "compileall", *options, *map(str, folders))


def _pack(root: Path, target: Path) -> None:
    """Write an archive of a folder: root's files, without times, in one order."""

    def normal(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(target, "w") as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, str(path.relative_to(root)), recursive=False, filter=normal)


def _run(*command: str) -> None:
    arguments: Sequence[str] = command
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-2000:]}")


if __name__ == "__main__":
    main()
