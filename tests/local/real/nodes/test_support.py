"""Where nodes with containers cannot run, one sentence says why and what to do."""

from pathlib import Path

import pytest

from hanse.local.real.errors import NodesUnsupported
from hanse.local.real.nodes import support
from hanse.local.real.nodes.support import require_support
from tests.cli.programs import hanse


def test_another_user_than_root_is_told_to_use_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    with pytest.raises(NodesUnsupported, match="need root; use sudo"):
        require_support()


def test_missing_packages_are_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(support, "CNI_PLUGINS", tmp_path)

    with pytest.raises(NodesUnsupported, match=r"apt-get install .* containerd .* runc"):
        require_support()


def test_containers_need_real_clusters(tmp_path: Path) -> None:
    result = hanse("up", "--nodes", "containers", cwd=tmp_path)

    assert result.status == 2
    assert "--nodes containers needs --engine kubernetes" in result.err
