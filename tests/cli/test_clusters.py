"""Selecting and reading the clusters of a command."""

import asyncio
import fcntl
from datetime import timedelta
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from hanse.cli.clusters import (
    MAX_CONCURRENT_READS,
    ClusterAccess,
    ReadFailure,
    configured_clusters,
    is_local,
    kubeconfig_files,
    local_folder,
    read_clusters,
    select_cluster,
    select_clusters,
)
from hanse.cli.errors import InputError
from hanse.cli.root import hanse, run
from hanse.cli.settings import GlobalOptions
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, ServerEndpoint
from hanse.kube.errors import BadCredentials, Unreachable
from hanse.local.kubeconfig import Context, write_kubeconfig


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _config(path: Path, *names: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_kubeconfig(
        path, [Context(name, ClientConfig(ServerEndpoint(f"https://{name}"))) for name in names]
    )
    return path


def test_the_file_that_is_named_goes_first(here: Path) -> None:
    named = _config(here / "named", "a")

    chosen = kubeconfig_files(
        GlobalOptions(kubeconfig=named), {"KUBECONFIG": "other", "HOME": "/h"}
    )

    assert chosen == (named,)


def test_a_federation_that_runs_here_goes_before_the_home_folder() -> None:
    assert kubeconfig_files(GlobalOptions(), {"HOME": "/h"}) == (Path("/h/.kube/config"),)

    Path(".hanse").mkdir()
    Path(".hanse/control.sock").touch()

    assert kubeconfig_files(GlobalOptions(), {"HOME": "/h"}) == (Path(".hanse/kubeconfig"),)
    assert is_local(GlobalOptions(), {"HOME": "/h"})
    assert not is_local(GlobalOptions(), {"HOME": "/h", "KUBECONFIG": "/elsewhere/config"})


def test_a_pod_with_nothing_else_looks_at_its_own_cluster(here: Path) -> None:
    pod = {"HOME": str(here), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    assert kubeconfig_files(GlobalOptions(), pod) is None
    assert [cluster.name for cluster in configured_clusters(GlobalOptions(), pod)] == ["in-cluster"]


def test_every_context_is_a_cluster_unless_one_is_chosen(here: Path) -> None:
    file = _config(here / "config", "lubeck", "hamburg")

    assert [cluster.name for cluster in configured_clusters(GlobalOptions(kubeconfig=file))] == [
        "lubeck",
        "hamburg",
    ]
    assert [cluster.name for cluster in configured_clusters(GlobalOptions(file, "hamburg"))] == [
        "hamburg"
    ]


def test_a_context_that_is_not_there_is_refused_with_those_that_are(here: Path) -> None:
    file = _config(here / "config", "lubeck", "hamburg")

    with pytest.raises(BadCredentials, match=r"no context 'rome' .* there is: lubeck, hamburg"):
        configured_clusters(GlobalOptions(file, "rome"))


def test_a_kubeconfig_without_clusters_is_refused(here: Path) -> None:
    with pytest.raises(BadCredentials, match="names no cluster; add a context, or start"):
        configured_clusters(GlobalOptions(_config(here / "config")))


def test_the_local_federation_meant_is_the_one_beside_the_kubeconfig(here: Path) -> None:
    (here / "fleet").mkdir()
    (here / "fleet/control.sock").touch()

    run_hanse = {"KUBECONFIG": f"/other/config:{here}/fleet/kubeconfig"}

    assert local_folder(GlobalOptions(), run_hanse) == here / "fleet"
    assert local_folder(GlobalOptions(), {}) == Path(".hanse")


def test_the_folder_that_a_variable_names_is_that_of_the_federation() -> None:
    assert kubeconfig_files(GlobalOptions(), {"HOME": "/h", "HANSE_DIR": "fleet"}) == (
        Path("fleet/kubeconfig"),
    )
    assert local_folder(GlobalOptions(), {"HANSE_DIR": "fleet"}) == Path("fleet")


def test_a_stopped_federation_is_reported_with_how_to_start_it(here: Path) -> None:
    named = _config(here / "fleet/kubeconfig", "lubeck")
    (here / "fleet/lock").touch()

    with pytest.raises(BadCredentials, match=r"has ended; start it: hanse up --dir .*fleet"):
        configured_clusters(GlobalOptions(kubeconfig=named))


def test_a_federation_whose_folder_is_held_has_not_ended(here: Path) -> None:
    named = _config(here / "fleet/kubeconfig", "lubeck")
    with (here / "fleet/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert [
            cluster.name for cluster in configured_clusters(GlobalOptions(kubeconfig=named))
        ] == ["lubeck"]


def test_a_shell_is_offered_the_clusters_that_there_are(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(_config(here / "config", "lubeck", "bergen")))
    complete = ShellComplete(hanse, {}, "hanse", "_HANSE_COMPLETE")

    offered = complete.get_completions(["status", "--context"], "lu")

    assert [one.value for one in offered] == ["lubeck"]


@pytest.mark.anyio
async def test_of_many_clusters_some_are_read_at_a_time_and_all_in_the_end(here: Path) -> None:
    names = [f"c{number}" for number in range(3 * MAX_CONCURRENT_READS)]
    clusters = configured_clusters(GlobalOptions(kubeconfig=_config(here / "many", *names)))
    reading = most = 0

    async def read(cluster: ClusterAccess, _: Client) -> str:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        await asyncio.sleep(0)
        reading -= 1
        return cluster.name

    assert await read_clusters(clusters, read) == names
    assert most == MAX_CONCURRENT_READS


@pytest.mark.anyio
async def test_a_cluster_that_fails_or_is_late_hides_no_other(here: Path) -> None:
    clusters = configured_clusters(GlobalOptions(kubeconfig=_config(here / "many", "a", "b", "c")))

    async def read(cluster: ClusterAccess, _: Client) -> str:
        if cluster.name == "a":
            raise Unreachable("refused")
        if cluster.name == "b":
            await asyncio.sleep(60)
        return "read"

    a, b, c = await read_clusters(clusters, read, limit=timedelta(milliseconds=10))

    assert isinstance(a, ReadFailure)
    assert isinstance(b, ReadFailure)
    assert (a.message("late"), b.message("late"), c) == ("refused", "late", "read")


@pytest.mark.parametrize("chosen", ["in-cluster", ""], ids=["named", "current"])
def test_a_context_called_in_cluster_is_looked_up_as_any_other(here: Path, chosen: str) -> None:
    file = _config(here / "config", "lubeck", "in-cluster")
    file.write_text(
        file.read_text().replace("current-context: lubeck", "current-context: in-cluster")
    )

    assert select_cluster(GlobalOptions(kubeconfig=file), chosen).name == "in-cluster"


def test_a_context_called_in_cluster_that_a_kubeconfig_lacks_is_refused(here: Path) -> None:
    file = _config(here / "config", "lubeck", "hamburg")

    with pytest.raises(InputError, match=r"no context 'in-cluster' .* there is: lubeck, hamburg"):
        select_cluster(GlobalOptions(kubeconfig=file), "in-cluster")


@pytest.fixture
def pod(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a pod that has only its service account."""
    for name in ("KUBECONFIG", "HANSE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")


@pytest.mark.usefixtures("pod")
def test_a_pod_without_a_kubeconfig_knows_its_own_cluster_and_no_other() -> None:
    assert select_cluster(GlobalOptions()).name == "in-cluster"
    assert select_cluster(GlobalOptions(context="in-cluster")).name == "in-cluster"
    with pytest.raises(InputError, match=r"no context 'broker': .* give --kubeconfig"):
        select_cluster(GlobalOptions(), "broker")
    with pytest.raises(InputError, match=r"no context 'broker': .* give --kubeconfig"):
        select_clusters(GlobalOptions(context="broker"))


@pytest.mark.usefixtures("pod")
def test_a_pod_does_not_take_its_own_cluster_for_the_broker_to_leave(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = run(["leave", "--broker", "hub", "--cluster-id", "bergen", "--force"])

    assert status == 2
    assert "no context 'hub'" in capsys.readouterr().err
