"""`hanse up --nodes containers`: kubectl works on pods, and nothing is left behind."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import HTTP, workload
from tests.nodes.processes import Process, adopt_orphans, cgroups_of, descendants
from tests.nodes.starting import starting

HERE = "lubeck"
SPACE = "pods"


@pytest.fixture(scope="module")
def fleet(routed: NodesFleet) -> Iterator[NodesFleet]:
    routed.create_namespace(SPACE)
    routed.apply(HERE, SPACE, workload("Deployment", HERE))
    routed.await_rollout(HERE, SPACE, "deployment/web")
    yield routed
    routed.delete_namespace(SPACE)


def test_logs_show_what_a_container_wrote(fleet: NodesFleet) -> None:
    [pod] = fleet.get(HERE, "-n", SPACE, "pods", "-l", "app=web")["items"]
    fleet.dial(HERE, SPACE, f"http://{pod['status']['podIP']}:{HTTP}/hello", 1)

    logs = until(lambda: fleet.must(HERE, "-n", SPACE, "logs", "deployment/web"), bool)

    assert "GET /hello from" in logs


def test_exec_reports_the_exit_status_of_the_command(fleet: NodesFleet) -> None:
    result = fleet.netcheck(HERE, SPACE, "nothing")

    assert result.status == 1
    assert "there is no command nothing" in result.err


def test_port_forward_reaches_a_pod(fleet: NodesFleet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ("kubectl", f"--kubeconfig={fleet.running.kubeconfig}", "--context", HERE)
    forward = ("-n", SPACE, "port-forward", "deployment/web", f"{port}:{HTTP}")
    with subprocess.Popen([*command, *forward], stdout=subprocess.PIPE, text=True) as forwarding:
        assert forwarding.stdout is not None
        forwarding.stdout.readline()
        try:
            with socket.create_connection(("127.0.0.1", port), 10) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                answer = client.makefile().read()
        finally:
            forwarding.terminate()

    assert f"{HERE} web-" in answer


def test_the_machine_is_not_changed(fleet: NodesFleet) -> None:
    """Namespaces hide the nodes: no device, mount or rule of theirs is on the machine."""
    folder = str(fleet.running.folder)

    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if folder in line]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout

    assert mounts == []
    assert "veth" not in links
    assert "c0n1" not in links


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind_however_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    with starting(tmp_path, "isolated", "--no-sample", names=(HERE,)) as fleet:
        fleet.create_namespace(SPACE)
        started = descendants(fleet.running.process.pid)
        assert any(process.name.startswith("containerd-shim") for process in started)

        fleet.running.stop(how)

        until(lambda: _alive(started), lambda alive: not alive)
    pid = fleet.running.process.pid
    if how != signal.SIGKILL:
        assert cgroups_of(pid) == []
        return
    with starting(tmp_path, "isolated", "--no-sample", names=(HERE,)):
        assert cgroups_of(pid) == []


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """A folder stands where containerd's settings are to be written."""
    settings = tmp_path / "kept/kubernetes/clusters" / HERE / "nodes/1/containerd.toml"
    settings.mkdir(parents=True)
    adopt_orphans()
    before = descendants(os.getpid())

    with (
        pytest.raises(AssertionError, match="it ended with"),
        starting(tmp_path, "isolated", "--no-sample", "--dir", "kept", names=(HERE,)),
    ):
        pass

    until(
        lambda: [process for process in descendants(os.getpid()) if process not in before],
        lambda left: not left,
    )


def _alive(processes: list[Process]) -> list[Process]:
    return [process for process in processes if process.alive]
