"""Regenerate `go.mod` and `go.sum` of each module after a version in `programs` has changed.

`python -m hanse.local.real.pin_modules` is for maintainers: builds use the committed files as they
are, so that every machine compiles the same sources. Each minor version of Kubernetes is a module;
`HANSE_KUBERNETES=1.34` pins another than the default.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from hanse.local.real.programs import (
    ALL,
    KUBERNETES,
    KUBERNETES_MODULE,
    MODULES,
    OWN_MODULES,
    Program,
)

GO_VERSION = "1.25.0"
"""The language version of the modules: the newest that any of the programs requires."""


def main() -> None:
    """Pin each Go module but our own, with all its programs, and report it on standard error."""
    modules = dict.fromkeys(program.module for program in ALL)
    for name in (name for name in modules if name not in OWN_MODULES):
        sys.stderr.write(f"pinning {name}\n")
        pin_module(name, [program for program in ALL if program.module == name])


def pin_module(name: str, programs: list[Program]) -> None:
    """Resolve the dependencies of a module's programs by `go mod tidy`, and write its files.

    These are `go.mod` and `go.sum` in the module's folder in `MODULES`. Raises `CalledProcessError`
    if Go fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "go.mod").write_text(module_file(name, programs))
        _run_go(work, "mod", "tidy")
        target = MODULES / name
        target.mkdir(parents=True, exist_ok=True)
        for file in ("go.mod", "go.sum"):
            (target / file).write_text((work / file).read_text())


def module_file(name: str, programs: list[Program]) -> str:
    """The content of a `go.mod` that requires the programs at their versions as tools.

    That of Kubernetes also replaces its staging modules by their published versions, for which Go
    is run.
    """
    versions = {_module_path(program): program.version for program in programs}
    lines = [f"module hanse.dev/{name}", "", f"go {GO_VERSION}", ""]
    lines += [f"require {path} {version}" for path, version in versions.items()]
    lines += [f"tool {program.package}" for program in programs]
    if name == KUBERNETES_MODULE:
        lines += [f"replace {path} => {path} {_staging_version()}" for path in staging_modules()]
    return "\n".join(lines) + "\n"


def staging_modules() -> list[str]:
    """The modules that Kubernetes keeps in `staging` and publishes separately.

    They are read from its `go.mod`, which Go downloads. Raises `CalledProcessError` if Go fails.
    """
    found = _run_go(Path.cwd(), "mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES}")
    source = Path(json.loads(found)["GoMod"]).read_text()
    return re.findall(r"^\s*(k8s\.io/[a-z-]+) => \./staging", source, re.MULTILINE)


def _staging_version() -> str:
    """The version of the staging modules: the chosen Kubernetes release with v0 in place of v1."""
    return KUBERNETES.replace("v1.", "v0.", 1)


def _module_path(program: Program) -> str:
    """The Go module that holds a program's package: what is before `/cmd/`, or all of it."""
    return program.package.partition("/cmd/")[0]


def _run_go(where: Path, *arguments: str) -> str:
    """Run Go in a folder and return its stdout; raises `CalledProcessError` if it fails."""
    process = subprocess.run(  # noqa: S603 - our own arguments
        ["go", *arguments],  # noqa: S607 - the developer's Go
        cwd=where,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process.stdout


if __name__ == "__main__":
    main()
