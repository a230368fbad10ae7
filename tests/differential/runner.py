"""Runs cases against one API server and normalizes the answers for comparison."""

import asyncio
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from hanse.kube.errors import ApiError, KubeError
from hanse.kube.transport import JSON, Request, Response, Transport
from tests.differential.cases import (
    CACHED,
    CORE,
    CRDS,
    Body,
    Case,
    RequestStep,
    Step,
    WatchStep,
    create,
    obj,
)
from tests.differential.normalizer import Normalizer

_SETUP = (
    create("/api/v1/namespaces", obj("v1", "Namespace", "$ns"), setup=True),
    # pods are refused without it, and no controller creates it here
    create(f"{CORE}/serviceaccounts", obj("v1", "ServiceAccount", "default"), setup=True),
)


class NormalizedAnswer(Struct, frozen=True):
    """One answer without what may differ between servers."""

    status: int
    body: Any
    warnings: str = ""


class Server(Struct, frozen=True):
    """The server under test, and where it finds the webhooks of the cases."""

    transport: Transport
    service_range: str
    webhook: str = "https://webhook.example"
    bundle: str = ""
    cache_delay: float = 0
    """The seconds until the server calls a new webhook, or knows a new role."""


async def run_case(server: Server, case: Case, namespace: str) -> list[NormalizedAnswer]:
    """The answers to the steps of a case, in a new namespace."""
    variables = {"ns": namespace, "webhook": server.webhook, "bundle": server.bundle}
    outcomes: list[NormalizedAnswer] = []
    for step in (*_SETUP, *case.steps):
        outcomes += await _run_step(server, step, variables)
    return outcomes


async def _run_step(
    server: Server, step: Step, variables: dict[str, str]
) -> list[NormalizedAnswer]:
    match step:
        case RequestStep():
            answer = await server.transport.send(_request(step, variables))
            _save_variables(step, answer, variables)
            if step.path == CRDS and answer.status == 201:
                await _wait_until_served(server.transport, msgspec.json.decode(answer.body))
            if step.method != "GET" and step.path.startswith(CACHED):
                await asyncio.sleep(server.cache_delay)
            if step.setup:
                assert answer.status < 300, answer.body
                return []
            return [_normalized(answer, _normalizer(server, variables))]
        case WatchStep():
            return await _run_watch(server, step, variables)
        case _:
            assert_never(step)


def _request(step: RequestStep | WatchStep, variables: dict[str, str]) -> Request:
    acting = (("Impersonate-User", _substitute(step.user, variables)),)
    headers = acting if step.user else ()
    query = tuple((key, _substitute(value, variables)) for key, value in step.query.items())
    if isinstance(step, WatchStep):
        path = _substitute(step.path, variables)
        return Request("GET", path, query, accept=step.accept, headers=headers)
    body = _body(step.body, variables)
    return Request(
        step.method,
        _substitute(step.path, variables),
        query,
        body=body,
        content_type=step.content_type if body or step.method != "DELETE" else JSON,
        accept=step.accept,
        headers=headers,
    )


def _body(body: Body, variables: dict[str, str]) -> bytes:
    match body:
        case None:
            return b""
        case str():
            return _substitute(body, variables).encode()
        case _:
            return _substitute(msgspec.json.encode(body).decode(), variables).encode()


def _substitute(text: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace(f"${name}", value)
    return text


def _save_variables(step: RequestStep, answer: Response, variables: dict[str, str]) -> None:
    for name, path in step.save.items():
        found = msgspec.json.decode(answer.body)
        for part in path.split("."):
            found = found.get(part, {})
        variables[name] = str(found or "")


async def _run_watch(
    server: Server, step: WatchStep, variables: dict[str, str]
) -> list[NormalizedAnswer]:
    """One answer for each event, or one for the error."""
    outcomes: list[NormalizedAnswer] = []
    local = _normalizer(server, variables)
    try:
        async with server.transport.stream(_request(step, variables)) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] != "BOOKMARK" or b"initial-events-end" in line:
                    outcomes.append(NormalizedAnswer(200, local.normalize(event)))
    except ApiError as refused:
        status = {"reason": refused.status.reason, "message": refused.status.message}
        outcomes.append(NormalizedAnswer(refused.status.code, local.normalize(status)))
    except KubeError as failed:
        outcomes.append(NormalizedAnswer(0, str(failed)))
    return outcomes


async def _wait_until_served(transport: Transport, crd: dict[str, Any]) -> None:
    """Wait until a real server has established a new definition, and serves it.

    It serves one before that, while more of the definition may still be changed.
    """
    spec = crd["spec"]
    version = next(one["name"] for one in spec["versions"] if one["storage"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    definition = f"{CRDS}/{crd['metadata']['name']}"
    async with asyncio.timeout(60):
        while not await _is_established(transport, definition):  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.05)
        while (await transport.send(Request("GET", path))).status == 404:  # noqa: ASYNC110 - another process serves it
            await asyncio.sleep(0.05)


async def _is_established(transport: Transport, definition: str) -> bool:
    found = msgspec.json.decode((await transport.send(Request("GET", definition))).body)
    conditions = found["status"].get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _normalizer(server: Server, variables: dict[str, str]) -> Normalizer:
    return Normalizer(variables["ns"], server.service_range, server.webhook)


def _normalized(answer: Response, local: Normalizer) -> NormalizedAnswer:
    try:
        body = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        body = answer.body.decode("utf-8", "replace")
    warnings = local.normalize(answer.headers.get("warning", ""))
    return NormalizedAnswer(answer.status, local.normalize(body), warnings)
