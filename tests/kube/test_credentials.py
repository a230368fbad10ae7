"""Credentials that change: files read again, plugins run again, never more often than needed."""

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hanse.kube.client_config import ExecPlugin
from hanse.kube.credentials import ReloadingCredentials, find_credentials, from_files, in_cluster
from hanse.kube.errors import BadCredentials
from hanse.kube.exec_plugin import run_plugin
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio

V1 = "client.authentication.k8s.io/v1"


def write_config(file: Path, user: dict[str, Any]) -> None:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(document))


async def token(credentials: ReloadingCredentials | Any) -> str:
    return str((await credentials.config()).identity.token)


class TestOnVirtualTime:
    """Files are looked at by the clock, which the test moves."""

    @pytest.fixture
    def anyio_backend(self) -> object:
        return ON_VIRTUAL_TIME

    async def test_a_changed_file_is_read_again(self, tmp_path: Path) -> None:
        file = tmp_path / "config"
        write_config(file, {"token": "old"})
        credentials = from_files((file,))
        first = await token(credentials)

        write_config(file, {"token": "newer"})
        at_once = await token(credentials)
        await asyncio.sleep(10)
        later = await token(credentials)

        assert (first, at_once, later) == ("old", "old", "newer")

    async def test_a_changed_token_file_is_read_again(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("old")
        write_config(tmp_path / "config", {"tokenFile": "token"})
        credentials = from_files((tmp_path / "config",))
        assert await token(credentials) == "old"

        (tmp_path / "token").write_text("newer")
        await asyncio.sleep(10)

        assert await token(credentials) == "newer"

    async def test_a_file_that_cannot_be_read_any_more_changes_nothing(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "config"
        write_config(file, {"token": "old"})
        credentials = from_files((file,))
        await credentials.config()

        file.write_text("{half")
        await asyncio.sleep(10)
        meanwhile = await token(credentials)
        write_config(file, {"token": "newer"})
        await asyncio.sleep(10)

        assert meanwhile == "old"
        assert await token(credentials) == "newer"

    async def test_a_refused_token_is_read_again_at_once(self, tmp_path: Path) -> None:
        file = tmp_path / "config"
        write_config(file, {"token": "old"})
        credentials = from_files((file,))
        refused = await credentials.config()
        write_config(file, {"token": "newer"})

        renewed = await credentials.refreshed(refused)

        assert renewed.identity.token == "newer"
        assert await credentials.refreshed(refused) is renewed

    async def test_the_pods_own_token_is_followed_through_the_kubelets_links(
        self, tmp_path: Path
    ) -> None:
        for version, content in (("..1", "first"), ("..2", "second")):
            (tmp_path / version).mkdir()
            (tmp_path / version / "token").write_text(content)
            (tmp_path / version / "ca.crt").write_text("CA")
            (tmp_path / version / "namespace").write_text("hanse-system")
        (tmp_path / "..data").symlink_to("..1")
        for name in ("token", "ca.crt", "namespace"):
            (tmp_path / name).symlink_to(f"..data/{name}")
        variables = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
        credentials = in_cluster(variables, tmp_path)
        first = await credentials.config()

        (tmp_path / "new").symlink_to("..2")
        os.replace(tmp_path / "new", tmp_path / "..data")
        await asyncio.sleep(10)
        second = await credentials.config()

        assert first.endpoint.url == "https://[fd00::1]:6443"
        assert (first.endpoint.ca, first.namespace) == (b"CA", "hanse-system")
        assert (first.identity.token, second.identity.token) == ("first", "second")

    async def test_a_failure_is_reported_to_all_and_looked_at_again_later(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "config"
        credentials = from_files((file,))
        with pytest.raises(BadCredentials, match="cannot read"):
            await credentials.config()

        write_config(file, {"token": "there"})
        with pytest.raises(BadCredentials, match="cannot read"):
            await credentials.config()
        await asyncio.sleep(5)

        assert await token(credentials) == "there"


async def test_what_is_there_is_found_in_kubectls_order(tmp_path: Path) -> None:
    home, given, listed = tmp_path / ".kube/config", tmp_path / "given", tmp_path / "listed"
    home.parent.mkdir()
    for file in (home, given, listed):
        write_config(file, {"token": file.name})
    pod = tmp_path / "pod"
    pod.mkdir()
    for name in ("token", "ca.crt"):
        (pod / name).write_text("pod")
    all_set = {
        "HOME": str(tmp_path),
        "KUBECONFIG": str(listed),
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    }
    in_pod = {key: value for key, value in all_set.items() if key != "KUBECONFIG"}

    tokens = [
        await token(find_credentials(given, environment=all_set, folder=pod)),
        await token(find_credentials(environment=all_set, folder=pod)),
        await token(find_credentials(environment=in_pod, folder=pod)),
        await token(find_credentials(environment=in_pod, folder=pod, context="x")),
        await token(find_credentials(environment={"HOME": str(tmp_path)}, folder=pod)),
    ]

    assert tokens == ["given", "listed", "pod", "config", "config"]


async def test_nothing_found_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadCredentials, match=r"cannot read .*\.kube/config"):
        await find_credentials(environment={"HOME": str(tmp_path)}).config()
    with pytest.raises(BadCredentials, match="set KUBECONFIG"):
        await find_credentials(environment={"KUBECONFIG": "/none:/neither"}).config()


def program(tmp_path: Path, body: str) -> Path:
    """A plugin in Python, made executable."""
    file = tmp_path / "plugin"
    file.write_text(f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
    file.chmod(0o755)
    return file


def giving(status: dict[str, Any], api_version: str = V1) -> str:
    answer = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
    return f"print({msgspec.json.encode(answer).decode()!r})"


def plugin(file: Path, **changes: Any) -> ExecPlugin:
    fields: dict[str, Any] = {"command": str(file), "api_version": V1, "origin": "config: user u"}
    return ExecPlugin(**{**fields, **changes})


async def test_a_plugin_gets_its_arguments_environment_and_cluster(tmp_path: Path) -> None:
    file = program(
        tmp_path,
        'info = os.environ["KUBERNETES_EXEC_INFO"]\n'
        'told = [sys.argv[1:], os.environ["A"], info, sys.stdin.read()]\n'
        'print(json.dumps({"apiVersion": json.loads(info)["apiVersion"],'
        ' "kind": "ExecCredential", "status": {"token": json.dumps(told)}}))',
    )

    given = await run_plugin(
        plugin(file, args=("x", "y z"), env=(("A", "b"),), cluster=b'{"server":"https://c"}')
    )

    args, variable, info, stdin = msgspec.json.decode(given.token)
    assert (args, variable, stdin) == (["x", "y z"], "b", "")
    assert msgspec.json.decode(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://c"}},
    }


async def test_a_plugin_may_give_a_certificate_for_a_time(tmp_path: Path) -> None:
    status = {
        "clientCertificateData": "CERT",
        "clientKeyData": "KEY",
        "expirationTimestamp": "2026-01-01T00:00:00Z",
    }
    older = "client.authentication.k8s.io/v1beta1"
    file = program(tmp_path, giving(status, older))

    given = await run_plugin(plugin(file, api_version=older))

    assert (given.client_certificate_data, given.client_key_data) == ("CERT", "KEY")
    assert given.expiration_timestamp == datetime(2026, 1, 1, tzinfo=UTC)
    assert "KEY" not in repr(given)


@pytest.mark.parametrize(
    ("body", "changes", "message"),
    [
        ("sys.exit(3)", {}, "ended with 3"),
        ("print('s3cr3t')", {}, "gave no ExecCredential"),
        (giving({"token": "t"}, "client.authentication.k8s.io/v1beta1"), {}, f"gave no {V1}"),
        (giving({}), {}, "neither a token nor a certificate"),
        (giving({"clientKeyData": "K", "token": "t"}), {}, "without the other"),
        (giving({"token": "t"}), {"api_version": "v1alpha1"}, "exec.apiVersion 'v1alpha1'"),
        (giving({"token": "t"}), {"interactive": "Sometimes"}, "interactiveMode 'Sometimes'"),
        (giving({"token": "t"}), {"interactive": "Always"}, "needs a terminal"),
        ("", {"command": "/no/such/login", "install_hint": "get it at x"}, r"\(get it at x\)"),
    ],
    ids=["exit", "text", "version", "empty", "half", "unknown", "mode", "always", "missing"],
)
async def test_a_plugin_that_fails_is_reported_without_its_output(
    tmp_path: Path, body: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadCredentials, match=message) as raised:
        await run_plugin(plugin(program(tmp_path, body), **changes))

    assert "s3cr3t" not in str(raised.value)
    assert str(raised.value).startswith("config: user u")


async def test_a_plugin_that_is_not_waited_for_is_ended(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    file = program(
        tmp_path,
        f"open({str(pipe)!r}, 'w').write(str(os.getpid()))\nimport time\ntime.sleep(60)",
    )
    running = asyncio.create_task(run_plugin(plugin(file)), name="plugin")
    pid = int(await asyncio.to_thread(pipe.read_text))

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_plugin_runs_once_for_all_and_again_when_its_time_is_up_or_it_is_refused(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    body = (
        f"runs = open({str(runs)!r}, 'a+'); runs.write('x'); runs.flush(); runs.seek(0)\n"
        "number = len(runs.read())\n"
        'print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1",'
        ' "kind": "ExecCredential", "status": {"token": str(number),'
        ' "expirationTimestamp": "2026-01-01T01:00:00Z"}}))'
    )
    program(tmp_path, body)
    write_config(tmp_path / "config", {"exec": {"apiVersion": V1, "command": "./plugin"}})
    clock = LoopClock(skew=timedelta(0))
    started = asyncio.get_running_loop().time()
    clock.skew = timedelta(seconds=-started)
    credentials = from_files((tmp_path / "config",), clock=clock)

    together = await asyncio.gather(*(credentials.config() for _ in range(5)))
    renewed = await credentials.refreshed(together[0])
    clock.skew += timedelta(minutes=59, seconds=31)
    after_its_time = await credentials.config()

    assert {access.identity.token for access in together} == {"1"}
    assert renewed.identity.token == "2"
    assert after_its_time.identity.token == "3"


async def test_a_plugin_that_fails_after_a_refusal_runs_once_for_all_who_were_refused(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    body = (
        f"runs = open({str(runs)!r}, 'a+'); runs.write('x'); runs.flush(); runs.seek(0)\n"
        "if len(runs.read()) > 1: sys.exit(1)\n"
        'print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1",'
        ' "kind": "ExecCredential", "status": {"token": "first"}}))'
    )
    program(tmp_path, body)
    write_config(tmp_path / "config", {"exec": {"apiVersion": V1, "command": "./plugin"}})
    credentials = from_files((tmp_path / "config",))
    refused = await credentials.config()

    attempts = (credentials.refreshed(refused) for _ in range(5))
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)

    assert [type(one) for one in outcomes] == [BadCredentials] * 5
    assert runs.read_text() == "xx"
