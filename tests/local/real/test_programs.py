"""What is pinned: the modules hold the versions that the programs say they have."""

import re

import pytest

from hanse.local.real.build import main
from hanse.local.real.programs import (
    ALL,
    API_SERVER,
    EXTRA,
    KUBERNETES,
    KUBERNETES_VERSIONS,
    MODULES,
    OWN_MODULES,
    VERSION_VARIABLE,
    Program,
    chosen_minor,
)


@pytest.mark.parametrize(
    "program", [p for p in ALL if p.module not in OWN_MODULES], ids=lambda program: program.name
)
def test_a_module_pins_the_version_of_its_program(program: Program) -> None:
    pinned = (MODULES / program.module / "go.mod").read_text()

    required = rf"^(?:require |\t)({_module_of(program)}) {program.version}\b"
    [module] = re.findall(required, pinned, re.MULTILINE)
    assert re.search(rf"^(tool |\t){re.escape(program.package)}$", pinned, re.MULTILINE)
    assert f"{module} {program.version} h1:" in (MODULES / program.module / "go.sum").read_text()


@pytest.mark.parametrize(("minor", "release"), KUBERNETES_VERSIONS.items())
def test_every_library_of_kubernetes_is_of_the_same_release(minor: str, release: str) -> None:
    replaced = re.findall(
        r"^(?:replace |\t)k8s\.io/\S+ => k8s\.io/\S+ (\S+)$",
        (MODULES / f"kubernetes-{minor}" / "go.mod").read_text(),
        re.MULTILINE,
    )

    assert len(replaced) > 20
    assert set(replaced) == {release.replace("v1", "v0")}


def test_a_release_is_chosen_by_its_minor_version_and_another_is_refused() -> None:
    assert chosen_minor({}) == next(iter(KUBERNETES_VERSIONS))
    assert chosen_minor({VERSION_VARIABLE: "1.33"}) == "1.33"
    with pytest.raises(SystemExit, match="HANSE_KUBERNETES is"):
        chosen_minor({VERSION_VARIABLE: "1.20"})


def test_the_version_is_linked_into_servers_and_clients() -> None:
    assert f"-X k8s.io/component-base/version.gitVersion={KUBERNETES}" in API_SERVER.linker_flags
    assert f"-X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES}" in API_SERVER.linker_flags


def test_there_is_exactly_one_module_per_group_of_programs() -> None:
    used = {program.module for program in (*ALL, *EXTRA)}
    used |= {f"kubernetes-{minor}" for minor in KUBERNETES_VERSIONS}

    assert used == {path.name for path in MODULES.iterdir()}


def test_an_unknown_program_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["build", "kubeadm"])

    with pytest.raises(SystemExit, match=r"no program is named kubeadm; there are kube-apiserver,"):
        main()


def _module_of(program: Program) -> str:
    return re.escape(program.package.partition("/cmd/")[0])
