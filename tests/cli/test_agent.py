"""`hanse agent` as a process of its own, against a cluster over HTTPS."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.command_server import RunningCommand, command_server
from tests.cli.programs import (
    COMMAND_TIMEOUT,
    RunningFederation,
    environment,
    eventually,
    hanse,
    running,
    soon,
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    with running(tmp_path_factory.mktemp("fleet"), "--clusters", "rome", "--no-sample") as found:
        yield found


class Agent:
    """A running agent, by what it logs and serves."""

    def __init__(self, process: RunningCommand) -> None:
        assert process.stdout is not None
        self.process = process
        self.first = json.loads(process.stdout.readline())
        self.url = f"http://{self.first['listen']}"

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(self.url + path, timeout=COMMAND_TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()


@contextmanager
def agent(
    fleet: RunningFederation, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[Agent]:
    home = {"KUBECONFIG": str(fleet.kubeconfig), "HANSE_LISTEN": "127.0.0.1:0"}
    whole = environment(fleet.folder, {**home, **(env or {})})
    process = command_server().start_with_pipe(["agent", *arguments], fleet.folder, whole)
    try:
        yield Agent(process)
    finally:
        if process.poll() is None:
            process.terminate()
        process.finish(COMMAND_TIMEOUT)


def test_it_serves_its_health_and_ends_on_a_signal(fleet: RunningFederation) -> None:
    with agent(fleet, "--cluster-id", "rome", "--broker-context", "broker") as running_one:
        assert running_one.first["message"] == "agent runs"
        assert running_one.first["cluster"] == "rome"
        assert running_one.get("/healthz") == (200, "ok\n")
        soon(lambda: "broker" in running_one.get("/readyz")[1])
        assert "hanse_" in running_one.get("/metrics")[1]

        running_one.process.send_signal(signal.SIGTERM)
        assert running_one.process.wait(COMMAND_TIMEOUT) == 0


def test_every_option_can_be_set_by_environment(fleet: RunningFederation) -> None:
    environment = {
        "HANSE_CLUSTER_ID": "paris",
        "HANSE_NAMESPACE": "default",
        "HANSE_IDENTITY": "one",
    }

    with agent(fleet, env=environment) as running_one:
        assert running_one.first["cluster"] == "paris"
        waited = fleet.kubectl(
            *("wait", "lease/hanse-agent", "-n", "default", "--for=create", "--timeout=90s")
        )
        holder = fleet.kubectl(
            *("get", "lease/hanse-agent", "-n", "default", "-o", "jsonpath={.spec.holderIdentity}")
        )

    assert waited.status == 0, waited.err
    assert holder.out == "paris_one"


def test_it_shows_what_it_sees_to_those_who_have_the_token(
    fleet: RunningFederation, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("a-token-nobody-guesses\n")
    shown = ("--dashboard-listen", "127.0.0.1:0", "--dashboard-token-file", str(secret))

    with agent(fleet, "--cluster-id", "rome", *shown) as running_one:
        url = f"http://{running_one.first['dashboard']}/api/board"
        asked = Request(url, headers={"Authorization": "Bearer a-token-nobody-guesses"})

        def sees_itself() -> str:
            with urlopen(asked, timeout=COMMAND_TIMEOUT) as answer:
                board.update(json.load(answer))
            rome = board["sections"]["clusters"].get("rome", {})
            return "" if rome.get("agent") else str(board)

        board: dict[str, Any] = {}
        eventually(sees_itself)
        with pytest.raises(HTTPError) as refused:
            urlopen(url, timeout=COMMAND_TIMEOUT)
        refused.value.close()

    assert refused.value.code == 401
    assert board["may"] == ["resolve"]


def test_a_dashboard_without_a_token_or_with_a_weak_one_is_refused(tmp_path: Path) -> None:
    weak = tmp_path / "token"
    weak.write_text("secret")
    asked = ("agent", "--cluster-id", "rome", "--dashboard-listen", "127.0.0.1:0")

    without = hanse(*asked, cwd=tmp_path)
    guessed = hanse(*asked, "--dashboard-token-file", str(weak), cwd=tmp_path)

    assert (without.status, guessed.status) == (2, 2)
    assert "needs --dashboard-token-file" in without.err
    assert "at least 16" in guessed.err
    assert "secret" not in guessed.err


def test_a_context_that_is_not_there_is_named(fleet: RunningFederation, tmp_path: Path) -> None:
    result = hanse(
        *("agent", "--cluster-id", "rome", "--context", "paris", "--listen", "127.0.0.1:0"),
        cwd=tmp_path,
        env={"KUBECONFIG": str(fleet.kubeconfig)},
    )

    assert result.status == 2
    assert result.err == f"hanse: {fleet.kubeconfig}: no context 'paris'; there is: broker, rome\n"


def test_an_address_that_is_taken_is_named(fleet: RunningFederation, tmp_path: Path) -> None:
    with agent(fleet, "--cluster-id", "rome") as running_one:
        taken = running_one.first["listen"]

        result = hanse("agent", "--cluster-id", "rome", "--listen", taken, cwd=tmp_path)

    assert result.status == 2
    assert result.err == (
        f"hanse: --listen {taken}: Address already in use; choose another address or port\n"
    )


def test_a_bad_cluster_id_is_refused_at_once(tmp_path: Path) -> None:
    result = hanse("agent", "--cluster-id", "Rome", cwd=tmp_path)

    assert result.status == 2
    assert result.err.startswith("hanse: --cluster-id 'Rome' is not a DNS label")
    assert result.err.count("\n") == 1


def test_a_template_that_no_network_can_be_made_of_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"metadata": {"name": "{{.Name}}"}}')

    for options, why in (
        (("--default-network-template-path", str(bad)), "is the only substitution"),
        (("--default-network-template-path", str(tmp_path / "none")), "name a readable file"),
        (("--network-provider", "mizar"), "is not TYPE=URL"),
    ):
        result = hanse("agent", "--cluster-id", "rome", *options, cwd=tmp_path)

        assert result.status == 2
        assert why in result.err
