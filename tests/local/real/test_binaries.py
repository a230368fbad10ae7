"""Finding programs: KUBEBUILDER_ASSETS, PATH and the cache."""

from pathlib import Path

import pytest

from hanse.local.real.binaries import (
    cache_folder,
    cached,
    find_program,
    find_programs,
    version_matches,
)
from hanse.local.real.errors import ProgramMissing
from hanse.local.real.programs import API_SERVER, COREDNS_SERVER, ETCD_SERVER, KUBECTL, Program
from tests.local.real.programs_on_disk import script


@pytest.mark.parametrize(
    ("program", "version_text", "expected"),
    [
        pytest.param(API_SERVER, "Kubernetes v1.35.4", True, id="the pinned version"),
        pytest.param(API_SERVER, "Kubernetes v1.35.0", True, id="another patch"),
        pytest.param(API_SERVER, "Kubernetes v1.34.9", False, id="an older minor"),
        pytest.param(API_SERVER, "Kubernetes v0.0.0-master", False, id="no version"),
        pytest.param(ETCD_SERVER, "etcd Version: 3.6.1\nGit SHA: x", True, id="etcd's words"),
        pytest.param(KUBECTL, "Client Version: v1.32.4-dispatcher", False, id="a dispatcher"),
        pytest.param(COREDNS_SERVER, "CoreDNS-1.14.0\nlinux/amd64", True, id="CoreDNS' words"),
        pytest.param(ETCD_SERVER, "usage: etcd", False, id="no answer at all"),
    ],
)
def test_a_program_matches_by_its_minor_version(
    program: Program, version_text: str, expected: bool
) -> None:
    assert version_matches(program, version_text) is expected


async def test_a_matching_program_in_kubebuilder_assets_is_preferred(tmp_path: Path) -> None:
    given = script(tmp_path / "assets" / "etcd", "echo etcd Version: 3.6.5")
    script(tmp_path / "bin" / "etcd", "echo etcd Version: 3.6.5")
    places = {
        "KUBEBUILDER_ASSETS": str(tmp_path / "assets"),
        "PATH": str(tmp_path / "bin"),
    }

    assert await find_program(ETCD_SERVER, tmp_path / "cache", places) == given


async def test_an_installed_program_of_another_version_is_ignored(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "etcd", "echo etcd Version: 3.5.0")
    built = script(cached(ETCD_SERVER, tmp_path / "cache"), "echo built here")

    found = await find_program(ETCD_SERVER, tmp_path / "cache", {"PATH": str(tmp_path / "bin")})

    assert found == built


async def test_missing_programs_are_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)

    with pytest.raises(
        ProgramMissing, match=r"not built yet: etcd, kubectl; run `make kube-binaries`"
    ):
        await find_programs((ETCD_SERVER, KUBECTL), tmp_path)


def test_the_cache_folder_follows_the_xdg_convention() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/somewhere"}) == Path("/somewhere/hanse")
    assert cache_folder({}) == Path.home() / ".cache" / "hanse"
