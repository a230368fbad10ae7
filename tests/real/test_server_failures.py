"""Crashed servers, ports in use, and clusters restored from a snapshot."""

import os
import signal
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from hanse.kube.errors import Unreachable
from hanse.local.real.errors import FleetFolderLocked, PortInUse, ServerDied
from hanse.local.real.fleet import RealFleet
from hanse.local.real.ports import find_port_owner, is_port_free
from tests.real.api_requests import admin_transport, config_map_names, create_config_map, get
from tests.real.conftest import Kubectl

NO_WAIT = timedelta(0)


@pytest.fixture
async def broker_only(binaries: dict[str, Path], tmp_path: Path) -> AsyncIterator[RealFleet]:
    """A fleet of only a broker, for fault injection."""
    async with RealFleet(tmp_path, binaries, names=()) as fleet:
        yield fleet


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_server_killed_from_outside_is_reported(broker_only: RealFleet) -> None:
    server = broker_only.broker.servers["kube-controller-manager"]
    assert server.pid is not None

    os.kill(server.pid, signal.SIGKILL)
    death = await broker_only.next_dead_server()

    assert (death.cluster, death.program) == ("broker", "kube-controller-manager")
    assert f"ended with signal {signal.SIGKILL:d}" in str(death)
    assert str(server.command.log) in str(death)


async def test_a_server_that_cannot_start_is_reported_with_the_end_of_its_log(
    binaries: dict[str, Path], tmp_path: Path
) -> None:
    keys = tmp_path / "clusters" / "broker" / "pki"
    keys.mkdir(parents=True)
    (keys / "service-accounts.key").write_text("not a key")

    with pytest.raises(ServerDied, match="kube-apiserver of broker ended with status 1") as died:
        await RealFleet(tmp_path, binaries, names=()).__aenter__()

    assert "service-accounts.key" in str(died.value)
    assert str(tmp_path / "logs" / "broker" / "kube-apiserver.log") in str(died.value)


async def test_a_port_in_use_is_an_error_that_names_its_owner(
    binaries: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hanse.local.real.server.PORT_TIMEOUT", NO_WAIT)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        fleet = RealFleet(tmp_path, binaries, names=(), ports={"broker": port})

        with pytest.raises(PortInUse, match=f"port {port} is held by process {os.getpid()} "):
            await fleet.__aenter__()


async def test_two_fleets_never_share_a_folder(
    broker_only: RealFleet, binaries: dict[str, Path]
) -> None:
    with pytest.raises(FleetFolderLocked, match=f"in use by the fleet of process {os.getpid()}"):
        await RealFleet(broker_only.directory, binaries, names=()).__aenter__()


async def test_stopping_leaves_no_process_and_no_port(
    binaries: dict[str, Path], tmp_path: Path
) -> None:
    async with RealFleet(tmp_path, binaries, names=()) as fleet:
        broker = fleet.broker
        pids = [server.pid for server in broker.servers.values()]
        holder = find_port_owner(broker.config.port)

    assert holder is not None
    assert holder.program == "kube-apiserver"
    assert holder.pid in pids
    assert not any(pid is None or runs(pid) for pid in pids)
    assert is_port_free(broker.config.port)


async def test_a_fleet_started_again_in_its_folder_still_has_its_objects(
    binaries: dict[str, Path], tmp_path: Path
) -> None:
    async with (
        RealFleet(tmp_path, binaries, names=()) as fleet,
        admin_transport(fleet.broker) as admin,
    ):
        await create_config_map(admin, "kept")

    async with (
        RealFleet(tmp_path, binaries, names=()) as fleet,
        admin_transport(fleet.broker) as admin,
    ):
        assert await config_map_names(admin) == {"kept"}


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
async def test_a_killed_and_restarted_server_has_all_its_objects(
    broker_only: RealFleet, program: str
) -> None:
    broker = broker_only.broker
    async with admin_transport(broker) as admin:
        await create_config_map(admin, "kept")
        await broker.kill_server(program)
        if program == "kube-apiserver":
            with pytest.raises(Unreachable):
                await get(admin, "/version")

        await broker.start_server(program)

        assert await config_map_names(admin) == {"kept"}


async def test_a_cluster_with_restarted_servers_runs_new_pods(
    binaries: dict[str, Path], tmp_path: Path, kubectl: Kubectl
) -> None:
    async with RealFleet(tmp_path, binaries, names=("lubeck",)) as fleet:
        lubeck = fleet.clusters["lubeck"]
        for program in ("kube-apiserver", "kwok"):
            await lubeck.servers[program].stop()
            await lubeck.start_server(program)

        create = ("create", "deployment", "web", "--image=web", "--replicas=2")
        ready = ("rollout", "status", "deployment/web", "--timeout=60s")
        for arguments in (create, ready):
            result = await kubectl(fleet.kubeconfig, "lubeck", *arguments)
            assert result.status == 0, result.errors


async def test_a_restored_cluster_has_the_objects_of_the_snapshot_and_continues(
    binaries: dict[str, Path], tmp_path: Path, kubectl: Kubectl
) -> None:
    snapshot = tmp_path / "snapshot.db"
    async with RealFleet(tmp_path / "fleet", binaries, names=("lubeck",)) as fleet:
        lubeck = fleet.clusters["lubeck"]
        async with admin_transport(lubeck) as admin:
            await create_config_map(admin, "before")
            await lubeck.save(snapshot)
            await create_config_map(admin, "after")
            version = (await get(admin, "/api/v1/configmaps"))["metadata"]["resourceVersion"]

        await lubeck.restore(snapshot)

        async with admin_transport(lubeck) as admin:
            assert await config_map_names(admin) == {"before"}
            saved = await get(admin, "/api/v1/namespaces/default/configmaps/before")
        assert int(saved["metadata"]["resourceVersion"]) < int(version)
        run = ("run", "one", "--image=one")
        ready = ("wait", "pod/one", "--for=condition=Ready", "--timeout=60s")
        for arguments in (run, ready):
            result = await kubectl(fleet.kubeconfig, "lubeck", *arguments)
            assert result.status == 0, result.errors
