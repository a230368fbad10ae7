"""Tell a case to one API server, and write down its answers so that two servers can be compared."""

import asyncio
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from hanse.kube.errors import ApiError, KubeError
from hanse.kube.transport import JSON, Request, Response, Transport
from tests.differential.normal import Local
from tests.differential.vocabulary import (
    CORE,
    CRDS,
    HOOKS,
    Ask,
    Body,
    Case,
    Follow,
    Step,
    create,
    obj,
)

_GROUND = (
    create("/api/v1/namespaces", obj("v1", "Namespace", "$ns"), given=True),
    # No controller makes it here, and pods are refused without.
    create(f"{CORE}/serviceaccounts", obj("v1", "ServiceAccount", "default"), given=True),
)


class Outcome(Struct, frozen=True):
    """One answer without what may differ from server to server."""

    status: int
    body: Any
    warnings: str = ""


class Server(Struct, frozen=True):
    """A server to play to, and where it finds the webhooks of the cases."""

    transport: Transport
    service_range: str
    webhook: str = "https://webhook.example"
    bundle: str = ""
    settling: float = 0
    """The seconds that pass until it asks a webhook that it was told of."""


async def play(server: Server, case: Case, namespace: str) -> list[Outcome]:
    """The answers to a case's steps, in a new namespace."""
    kept = {"ns": namespace, "webhook": server.webhook, "bundle": server.bundle}
    outcomes: list[Outcome] = []
    for step in (*_GROUND, *case.steps):
        outcomes += await _told(server, step, kept)
    return outcomes


async def _told(server: Server, step: Step, kept: dict[str, str]) -> list[Outcome]:
    match step:
        case Ask():
            answer = await server.transport.send(_request(step, kept))
            _keep(step, answer, kept)
            if step.path == CRDS and answer.status == 201:
                await _served(server.transport, msgspec.json.decode(answer.body))
            if step.path in HOOKS:
                await asyncio.sleep(server.settling)
            if step.given:
                assert answer.status < 300, answer.body
                return []
            return [_outcome(answer, _local(server, kept))]
        case Follow():
            return await _followed(server, step, kept)
        case _:
            assert_never(step)


def _request(step: Ask | Follow, kept: dict[str, str]) -> Request:
    query = tuple((key, _filled(value, kept)) for key, value in step.query.items())
    if isinstance(step, Follow):
        return Request("GET", _filled(step.path, kept), query, accept=step.accept)
    body = _body(step.body, kept)
    return Request(
        step.method,
        _filled(step.path, kept),
        query,
        body=body,
        content_type=step.content_type if body or step.method != "DELETE" else JSON,
        accept=step.accept,
    )


def _body(body: Body, kept: dict[str, str]) -> bytes:
    match body:
        case None:
            return b""
        case str():
            return _filled(body, kept).encode()
        case _:
            return _filled(msgspec.json.encode(body).decode(), kept).encode()


def _filled(text: str, kept: dict[str, str]) -> str:
    for name, value in kept.items():
        text = text.replace(f"${name}", value)
    return text


def _keep(step: Ask, answer: Response, kept: dict[str, str]) -> None:
    for name, path in step.keep.items():
        found = msgspec.json.decode(answer.body)
        for part in path.split("."):
            found = found.get(part, {})
        kept[name] = str(found or "")


async def _followed(server: Server, step: Follow, kept: dict[str, str]) -> list[Outcome]:
    """One outcome for each event, or the one refusal."""
    outcomes: list[Outcome] = []
    local = _local(server, kept)
    try:
        async with server.transport.stream(_request(step, kept)) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] != "BOOKMARK" or b"initial-events-end" in line:
                    outcomes.append(Outcome(200, local.normal(event)))
    except ApiError as refused:
        told = {"reason": refused.status.reason, "message": refused.status.message}
        outcomes.append(Outcome(refused.status.code, local.normal(told)))
    except KubeError as failed:
        outcomes.append(Outcome(0, str(failed)))
    return outcomes


async def _served(transport: Transport, crd: dict[str, Any]) -> None:
    """Wait until a definition's objects are served: real servers take a moment."""
    spec = crd["spec"]
    version = next(one["name"] for one in spec["versions"] if one["storage"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    async with asyncio.timeout(60):
        while (await transport.send(Request("GET", path))).status == 404:  # noqa: ASYNC110 - another process serves it
            await asyncio.sleep(0.05)


def _local(server: Server, kept: dict[str, str]) -> Local:
    return Local(kept["ns"], server.service_range, server.webhook)


def _outcome(answer: Response, local: Local) -> Outcome:
    try:
        body = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        body = answer.body.decode("utf-8", "replace")
    warnings = local.normal(answer.headers.get("warning", ""))
    return Outcome(answer.status, local.normal(body), warnings)
