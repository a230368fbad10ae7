"""`hanse up --engine kubernetes`: the same command over real servers."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.programs import CLUSTER
from tests.cli.programs import RunningFederation, running


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """One small federation on the programs that were found or built."""
    asyncio.run(find_or_build(CLUSTER, cache_folder()))
    arguments = ("--engine", "kubernetes", "--clusters", "rome")
    with running(tmp_path_factory.mktemp("up"), *arguments, env=_cache()) as found:
        yield found


def _cache() -> dict[str, str]:
    """Where programs were built, as the person who runs the tests has it."""
    stdin = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return {"XDG_CACHE_HOME": stdin}


def test_doctor_reports_nothing(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("doctor")

    assert result.out == "✓ nothing is wrong in rome, broker\n"


def test_the_sample_runs_and_a_load_balancer_gets_an_address(fleet: RunningFederation) -> None:
    rolled = fleet.kubectl("-n", "shop", "rollout", "status", "deployment/web", "--timeout=60s")
    fleet.kubectl("-n", "shop", "expose", "deployment/web", "--name=out", "--type=LoadBalancer")
    address = fleet.kubectl(
        *("-n", "shop", "wait", "service/out", "--timeout=30s"),
        "--for=jsonpath={.status.loadBalancer.ingress[0].ip}",
    )

    assert rolled.status == 0, rolled.err
    assert address.status == 0, address.err


def test_a_killed_api_server_comes_back_with_its_data(fleet: RunningFederation) -> None:
    fleet.kubectl("create", "configmap", "kept", "--from-literal=a=b")

    fleet.run_hanse("local", "kill", "rome")
    silent = json.loads(fleet.run_hanse("status", "--json").out)["clusters"][0]
    started = fleet.run_hanse("local", "start", "rome")
    found = fleet.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}")

    assert not silent["reachable"]
    assert started.status == 0, started.err
    assert found.out == "b"


def test_a_restored_cluster_has_what_was_saved(fleet: RunningFederation) -> None:
    fleet.kubectl("create", "configmap", "saved")
    saved = fleet.run_hanse("local", "save", "rome", "monday")
    fleet.kubectl("create", "configmap", "later")

    restored = fleet.run_hanse("local", "restore", "rome", "monday", "--bump-revision", "1000000")
    found = fleet.kubectl("get", "configmaps", "-o", "name").out.split()
    anew = fleet.kubectl(
        "create", "configmap", "anew", "-o", "jsonpath={.metadata.resourceVersion}"
    )

    assert saved.status == restored.status == 0, saved.err + restored.err
    assert "configmap/saved" in found
    assert "configmap/later" not in found
    assert int(anew.out) > 1_000_000


def test_servers_that_die_are_started_again(fleet: RunningFederation) -> None:
    programs = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller", "kwok")
    servers = Path(fleet.folder, "kubernetes/clusters")
    before = {p: _processes(servers / "rome", p) for p in programs}
    assert all(len(pids) == 1 for pids in before.values()), before

    for (pid,) in before.values():
        os.kill(pid, signal.SIGKILL)
    missing = set(programs)
    while missing:
        line = fleet.read_until("runs again")
        missing -= {p for p in missing if line.startswith(p)}

    create = ("create", "deployment", "anew", "--image=web", "--replicas=2")
    ready = ("rollout", "status", "deployment/anew", "--timeout=60s")
    for arguments in (create, ready):
        result = fleet.kubectl(*arguments)
        assert result.status == 0, result.err


def test_a_cluster_whose_etcd_died_is_started_until_it_answers(fleet: RunningFederation) -> None:
    (pid,) = _processes(Path(fleet.folder, "kubernetes/clusters/rome"), "etcd")

    os.kill(pid, signal.SIGKILL)
    started = fleet.run_hanse("local", "start", "rome")
    found = fleet.kubectl("get", "namespace", "shop", "-o", "name")

    assert (started.status, started.out) == (0, "rome runs\n"), started.err
    assert found.out == "namespace/shop\n", found.err


def _processes(folder: Path, program: str) -> list[int]:
    """The processes of a program that work in a folder."""
    found = [one for one in Path("/proc").glob("[0-9]*") if _works_in(one, str(folder))]
    return [int(one.name) for one in found if (one / "comm").read_text().startswith(program)]


def test_stopping_leaves_no_server_running(fleet: RunningFederation) -> None:
    assert fleet.stop() == 0

    here = str(fleet.folder)
    assert [one for one in Path("/proc").glob("[0-9]*") if _works_in(one, here)] == []


def _works_in(process: Path, folder: str) -> bool:
    try:
        return str((process / "cwd").readlink()).startswith(folder)
    except OSError:
        return False
