"""What a guard that ends finds out about the time after it."""

import socket
from typing import Any

import pytest
from aiohttp import web

from hanse.app import guard_end
from hanse.app.guard_end import GuardEnd, find_end
from hanse.cli.manifests.guard import guard_files
from hanse.cli.manifests.value_source import PlainValues
from hanse.cli.manifests.values import NetworksValues, Values
from hanse.kube.client_config import ClientConfig, ServerEndpoint, StaticCredentials


async def end_after(answers: list[int], body: dict[str, Any]) -> GuardEnd:
    """The end that is found by these answers of an API server, all of which are asked for."""
    left = list(answers)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=left.pop(0))

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    endpoint = ServerEndpoint(f"http://127.0.0.1:{listener.getsockname()[1]}")
    try:
        found = await find_end(StaticCredentials(ClientConfig(endpoint)), "hanse-system", "guard")
    finally:
        await runner.cleanup()
    assert left == []
    return found


@pytest.mark.parametrize(
    ("answers", "end"),
    [
        ([200], GuardEnd.RESTART),
        ([404], GuardEnd.GONE),
        ([500], GuardEnd.RESTART),
        ([403, 403, 401, 401, 401], GuardEnd.GONE),  # rights first, then the account
        ([401, 200], GuardEnd.RESTART),
        ([403] * guard_end.GONE_TRIES, GuardEnd.RESTART),
    ],
)
async def test_rules_go_with_the_daemonset_or_with_the_account(
    answers: list[int], end: GuardEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_end, "RETRY_SECONDS", 0.0)

    assert await end_after(answers, {"metadata": {}}) is end


@pytest.mark.parametrize(("cni", "end"), [(True, GuardEnd.RESTART), (False, GuardEnd.NO_PLUGIN)])
async def test_the_plugin_goes_when_the_chart_has_it_no_more(cni: bool, end: GuardEnd) -> None:
    """The guard after this one has no folders of the node, and could not remove it."""
    values = Values(cluster_id="lubeck", networks=NetworksValues(guard=True, cni=cni))
    made = [
        one
        for file in guard_files()
        if file.when.holds(values)
        for one in file.objects(PlainValues(values))
    ]
    [daemon_set] = [one for one in made if one["kind"] == "DaemonSet"]

    assert await end_after([200], daemon_set) is end


async def test_a_daemonset_that_is_being_deleted_is_gone() -> None:
    deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}

    assert await end_after([200], deleted) is GuardEnd.GONE
