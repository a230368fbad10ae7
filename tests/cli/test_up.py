"""`hanse up` as a person runs it: processes, ports, files, signals and kubectl."""

import json
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.cli.programs import (
    COMMAND_TIMEOUT,
    HANSE,
    RunningFederation,
    environment,
    hanse,
    running,
)

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Two clusters without the sample; tests mend what they break."""
    folder = tmp_path_factory.mktemp("plain")
    with running(folder, "--clusters", "rome,paris", "--no-sample") as federation:
        yield federation


def _ports(kubeconfig: Path) -> list[int]:
    clusters = yaml.safe_load(kubeconfig.read_text())["clusters"]
    return [urlsplit(one["cluster"]["server"]).port or 0 for one in clusters]


def _refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_it_prints_what_runs_where(fleet: RunningFederation) -> None:
    for port, name in zip(
        _ports(fleet.kubeconfig), ("lubeck", "hamburg", "bergen", "broker"), strict=True
    ):
        (row,) = [
            line
            for line in fleet.output.splitlines()
            if line.startswith(f"{name} ") and ":" in line
        ]
        assert f"https://127.0.0.1:{port}" in row
    assert f"export KUBECONFIG={fleet.kubeconfig}" in fleet.output


def test_every_cluster_is_a_context_and_the_first_is_current(fleet: RunningFederation) -> None:
    contexts = fleet.kubectl("config", "get-contexts", "-o", "name")
    current = fleet.kubectl("config", "current-context")

    assert contexts.out.split() == ["bergen", "broker", "hamburg", "lubeck"]
    assert current.out.strip() == "lubeck"


@pytest.mark.parametrize("name", ["kubeconfig", "control.sock"])
def test_only_its_owner_can_use_it(fleet: RunningFederation, name: str) -> None:
    assert stat.S_IMODE((fleet.folder / name).stat().st_mode) == 0o600


def test_the_sample_runs_in_every_cluster(fleet: RunningFederation) -> None:
    for cluster in ("lubeck", "hamburg", "bergen"):
        waited = fleet.kubectl(
            "--context",
            cluster,
            "-n",
            "shop",
            "rollout",
            "status",
            "deployment/web",
            "--timeout=90s",
        )

        assert waited.status == 0, waited.err


def test_the_broker_runs_no_workloads(fleet: RunningFederation) -> None:
    nodes = fleet.kubectl("--context", "broker", "get", "nodes", "-o", "name")
    rules = fleet.kubectl("--context", "broker", "get", "clustersets", "-o", "name")

    assert nodes.out == ""
    assert rules.out.split() == ["clusterset.hanse.dev/local"]


def test_each_cluster_has_ranges_of_its_own(fleet: RunningFederation) -> None:
    listed = json.loads(fleet.run_hanse("local", "list", "--json").out)

    ranges = [one[kind] for one in listed["clusters"] for kind in ("services", "pods", "nodes")]
    given = [one for one in ranges if one]
    assert len(set(given)) == len(given) == 10


@pytest.mark.parametrize(
    ("short", "kind", "where"),
    [("acnp", "ClusterNetworkPolicy", ()), ("anp", "NetworkPolicy", ("-n", "default"))],
)
def test_policies_of_antrea_have_their_short_names(
    plain: RunningFederation, tmp_path: Path, short: str, kind: str, where: tuple[str, ...]
) -> None:
    wire = {"apiVersion": "crd.antrea.io/v1beta1", "kind": kind, "metadata": {"name": "deny"}}
    (tmp_path / "policy.json").write_text(json.dumps({**wire, "spec": {"priority": 5}}))
    made = plain.kubectl("--context", "rome", "create", *where, "-f", str(tmp_path / "policy.json"))
    assert made.status == 0, made.err

    found = plain.kubectl("--context", "rome", "get", short, *where, "-o", "name")
    gone = plain.kubectl("--context", "rome", "delete", short, "deny", *where)

    assert found.out.startswith(f"{kind.lower()}"), found.err
    assert found.out.endswith("/deny\n")
    assert gone.status == 0, gone.err


def test_status_sees_every_agent_alive(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("status", "--json")

    clusters = {one["name"]: one for one in json.loads(result.out)["clusters"]}
    assert list(clusters) == ["lubeck", "hamburg", "bergen", "broker"]
    assert all(clusters[name]["agent"]["alive"] for name in ("lubeck", "hamburg", "bergen"))
    assert all(clusters[name]["nodes"] == {"all": 3, "ready": 3} for name in ("lubeck", "bergen"))
    assert clusters["broker"]["broker"]
    assert clusters["lubeck"]["features"]["services"]["exports"] >= 1


def test_doctor_finds_nothing_wrong(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("doctor", "--wait", "60", patience=90)

    assert result.out == "✓ nothing is wrong in lubeck, hamburg, bergen, broker\n"
    assert result.status == 0


def test_server_versions_are_printed(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("version", "--servers", "--json")

    assert set(json.loads(result.out)["servers"]) == {"lubeck", "hamburg", "bergen", "broker"}
    assert all(version.startswith("v1.") for version in json.loads(result.out)["servers"].values())


def test_an_unknown_cluster_is_named_with_those_there_are(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("local", "kill", "rome")

    assert result.status == 2
    assert result.err == (
        "hanse: there is no cluster 'rome'; there is: lubeck, hamburg, bergen, broker\n"
    )


def test_a_second_federation_in_the_same_folder_is_refused_with_the_first_ones_pid(
    fleet: RunningFederation,
) -> None:
    result = fleet.run_hanse("up")

    assert result.status == 2
    assert result.err == (
        f"hanse: a federation runs in {fleet.folder} already, as process {fleet.process.pid}; "
        f"stop it with `kill {fleet.process.pid}`, or give another folder with --dir\n"
    )


def test_a_second_one_beside_it_takes_other_ports(
    fleet: RunningFederation, plain: RunningFederation
) -> None:
    assert not set(_ports(fleet.kubeconfig)) & set(_ports(plain.kubeconfig))
    assert plain.kubectl("get", "nodes", "-o", "name").out.count("node/rome-node-") == 3
    assert plain.kubectl("get", "namespace", "shop").status == 1


def test_an_agent_stops_and_starts_while_its_cluster_runs(fleet: RunningFederation) -> None:
    stopped = fleet.run_hanse("local", "stop", "agent", "bergen")
    try:
        assert stopped.out.startswith("the agent of bergen is stopped; start it again with `")
        assert fleet.run_hanse("local", "list").out.count("stopped") == 1
        assert (
            fleet.kubectl("--context", "bergen", "get", "serviceimports", "-n", "shop").status == 0
        )
    finally:
        started = fleet.run_hanse("local", "start", "agent", "bergen")
    assert started.out == "the agent of bergen runs\n"
    assert "stopped" not in fleet.run_hanse("local", "list").out


def test_stopping_needs_to_know_what(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("local", "stop", "bergen")

    assert result.status == 2
    assert "stop agent bergen" in result.err
    assert "kill bergen" in result.err


def test_a_killed_cluster_refuses_connections_and_comes_back_with_its_data(
    plain: RunningFederation,
) -> None:
    plain.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    port = _ports(plain.kubeconfig)[0]

    killed = plain.run_hanse("local", "kill", "rome")
    assert killed.status == 0
    assert _refuses(port)
    silent = json.loads(plain.run_hanse("status", "--json").out)["clusters"][0]
    assert not silent["reachable"]
    ill = plain.run_hanse("doctor")
    assert ill.status == 1
    assert "mend it: hanse local start rome" in ill.out

    assert plain.run_hanse("local", "start", "rome").status == 0
    found = plain.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}")
    assert found.out == "b"


def test_cuts_and_slowness_are_listed_until_they_are_healed(plain: RunningFederation) -> None:
    plain.run_hanse("local", "cut", "rome", "broker")
    plain.run_hanse("local", "slow", "paris", "50ms")

    listed = json.loads(plain.run_hanse("local", "list", "--json").out)
    assert listed["cuts"] == [["broker", "rome"]]
    assert [one["delay_milliseconds"] for one in listed["clusters"]] == [0, 50, 0]

    assert plain.run_hanse("local", "heal", "--all").status == 0
    healed = json.loads(plain.run_hanse("local", "list", "--json").out)
    assert healed["cuts"] == []
    assert not any(one["delay_milliseconds"] for one in healed["clusters"])


@pytest.mark.parametrize(
    "sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda sign: sign.name
)
def test_a_signal_ends_everything_whoever_watches(tmp_path: Path, sign: signal.Signals) -> None:
    with running(tmp_path, "--clusters", "rome", "--no-sample") as fleet:
        ports = _ports(fleet.kubeconfig)
        watching = subprocess.Popen(
            ["kubectl", "get", "namespaces", "-w", "-o", "name"],
            env=environment(tmp_path, {"KUBECONFIG": str(fleet.kubeconfig)}),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("namespace/")

        assert fleet.stop(by=sign) == 0

        watching.communicate(timeout=COMMAND_TIMEOUT)
    assert all(_refuses(port) for port in ports)
    assert not (fleet.folder / "control.sock").exists()
    assert fleet.run_hanse("local", "list").err == (
        "hanse: no local federation runs in .hanse; start one with `hanse up`, "
        "or name its folder with --dir\n"
    )


@contextmanager
def interrupted_script(cwd: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A federation with a script that waits, and the script's process id."""
    process = subprocess.Popen(
        [*HANSE, "up", "--clusters", "rome", "--no-sample", "--exec", "echo $$; sleep 600"],
        cwd=cwd,
        env=environment(cwd),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_an_interrupted_script_is_ended_with_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    with interrupted_script(tmp_path) as (process, shell):
        process.terminate()
        _, err = process.communicate(timeout=COMMAND_TIMEOUT)

        assert process.returncode == 128 + signal.SIGTERM
        assert err.endswith("stopping; once more to force it\nended\n")
        assert not Path(f"/proc/{shell}").exists()


def test_a_signal_ends_it_where_nobody_reads_what_it_writes(tmp_path: Path) -> None:
    with interrupted_script(tmp_path) as (process, shell):
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        process.terminate()

        process.wait(timeout=COMMAND_TIMEOUT)

        assert not Path(f"/proc/{shell}").exists()


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    script = "trap '' TERM; echo stubborn; while :; do sleep 600; done"
    process = subprocess.Popen(
        [*HANSE, "up", "--clusters", "rome", "--no-sample", "--exec", script],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "stubborn\n"

    process.terminate()
    while not process.stderr.readline().startswith("stopping"):
        pass
    process.terminate()

    assert process.wait(COMMAND_TIMEOUT) == 130
    process.communicate(timeout=COMMAND_TIMEOUT)


def test_a_script_is_run_once_each_cluster_can_be_given_work(tmp_path: Path) -> None:
    holders = "{range .items[*]}{.metadata.name}={.spec.holderIdentity} {end}"
    script = f"""
        kubectl --context broker -n hanse-broker get leases -o jsonpath='{holders}'; echo
        kubectl create namespace port && kubectl get namespace port -o name
        hanse local cut rome broker >cut && hanse local list --json >cuts && hanse local heal --all
        sleep 600 >/dev/null 2>&1 & echo $!
        exit 7
    """

    result = hanse("up", "--clusters", "rome,oslo", "--no-sample", "--exec", script, cwd=tmp_path)

    leases, created, found, healed, left = result.out.splitlines()
    assert leases == "oslo=oslo rome=rome "
    assert (created, found) == ("namespace/port created", "namespace/port")
    assert json.loads((tmp_path / "cuts").read_text())["cuts"] == [["broker", "rome"]]
    assert healed == "everything is whole again"
    assert result.status == 7
    state = Path(f"/proc/{left}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"
    assert all(_refuses(port) for port in _ports(tmp_path / ".hanse/kubeconfig"))


def test_a_killed_script_has_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    script = ("--no-sample", "--exec", "kill -9 $$")
    result = hanse("up", "--clusters", "rome", *script, cwd=tmp_path)

    assert result.status == 128 + signal.SIGKILL


def test_objects_are_kept_only_where_that_was_asked_for(tmp_path: Path) -> None:
    change = (
        "kubectl create configmap kept --from-literal=a=b && kubectl -n shop delete deployment web"
    )
    look = "kubectl get configmap kept -o name; kubectl -n shop get deployments,services -o name"

    def up(script: str, *arguments: str) -> set[str]:
        started = ("up", "--clusters", "rome", "--exec", script, *arguments)
        return set(hanse(*started, cwd=tmp_path).out.split())

    up(change)
    assert {"configmap/kept", "deployment.apps/web"} & up(look) == {"deployment.apps/web"}

    up(change, "--dir", "kept")
    kept = up(look, "--dir", "kept")
    assert {"configmap/kept", "service/front", "service/web"} <= kept
    assert "deployment.apps/web" not in kept, "what a user removed stays removed"


def test_a_spoilt_file_of_kept_objects_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "kept/clusters"
    kept.mkdir(parents=True)
    (kept / "rome.json").write_text("{")

    result = hanse("up", "--clusters", "rome", "--dir", "kept", cwd=tmp_path)

    assert result.status == 2
    assert result.err.startswith(f"hanse: what rome held cannot be read from {kept}/rome.json: ")
    assert result.err.count("\n") == 1


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    result = hanse("up", "--dir", "file/in", cwd=tmp_path)

    assert result.status == 2
    assert result.err == (
        f"hanse: the folder {tmp_path}/file/in cannot be used: Not a directory; "
        "give another with --dir\n"
    )


def test_clusters_without_agents_have_nothing_of_ours_and_can_be_joined(tmp_path: Path) -> None:
    script = (
        "kubectl --context rome get crds,namespaces -o name; hanse local stop agent rome; "
        "hanse broker init --context broker >/dev/null && "
        "hanse join --broker broker --cluster-id rome --context rome >/dev/null"
    )

    result = hanse("up", "--clusters", "rome", "--no-agents", "--exec", script, cwd=tmp_path)

    assert result.status == 0, result.err
    spaces = {f"namespace/{name}" for name in ("default", "kube-system", "kube-public")}
    assert set(result.out.split()) - {"namespace/kube-node-lease"} == spaces
    assert "these clusters run without our agents (--no-agents)" in result.err
