"""The example of one quorum over clusters, with the real etcd of the real-cluster set."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "examples/etcd-quorum/run.sh"
PATIENCE = 180


@pytest.fixture
def own_network() -> None:
    """Skip where network namespaces cannot be created, as in some containers."""
    tried = subprocess.run(
        ("unshare", "--map-root-user", "--net", "true"), capture_output=True, check=False
    )
    if tried.returncode:
        pytest.skip("no network namespace can be made here")


@pytest.mark.usefixtures("own_network")
async def test_a_quorum_over_three_clusters_survives_the_loss_of_one(
    binaries: dict[str, Path], tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(binaries["kubectl"])
    hanse = programs / "hanse"
    hanse.write_text(f"#!{sys.executable}\nfrom hanse.cli import main\nmain()\n")
    hanse.chmod(0o755)
    kept = {n: os.environ[n] for n in ("PYTHONPATH",) if n in os.environ}
    environment = {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ETCD": str(binaries["etcd"]),
        "PYTHON": sys.executable,
    }

    result = subprocess.run(  # noqa: ASYNC221 - nothing else runs meanwhile
        (RUN,),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "ok: the quorum holds\n" in result.stdout
    assert "ok: the member is known again by its own name\n" in result.stdout
    assert result.stdout.endswith("one quorum over three clusters: formed, held, whole again\n")
