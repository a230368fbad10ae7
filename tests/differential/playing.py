"""Tell a case to one API server, and write down its answers so that two servers can be compared."""

import asyncio
import re
from ipaddress import ip_address, ip_network
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from hanse.kube.errors import ApiError, KubeError
from hanse.kube.request import JSON, Request, Response, Transport
from tests.differential.vocabulary import (
    CORE,
    CRDS,
    Ask,
    Body,
    Case,
    Follow,
    Step,
    create,
    obj,
)

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
QUAD = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")
AGE = re.compile(r"\d+m?s")
VERSION = re.compile(r"(?<=resource version: )\d+|(?<=current: )\d+|(?<=\()\d+(?=\))")
SCHEME = re.compile(r'(?<=in scheme ")[^"]*')
WHOLE_OBJECT = re.compile(r'(?<=Invalid value: )"\{.*\}"')
INTERNAL_DIFF = re.compile(r"\n@@.*", re.DOTALL)
NODE_PORT = re.compile(r":3\d{4}(?=/)")
SIGNS = {
    UUID: "$uid",
    TIME: "$time",
    VERSION: "$version",
    SCHEME: "$scheme",
    WHOLE_OBJECT: "$object",
    INTERNAL_DIFF: "",
    NODE_PORT: ":$port",
}
UNLIKE = {"resourceVersion", "continue", "token", "audiences"}
"""Fields whose values are each server's own."""


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
    """A server to play to; addresses in its range of Services are all alike."""

    transport: Transport
    service_range: str


async def play(server: Server, case: Case, namespace: str) -> list[Outcome]:
    """The answers to a case's steps, in a new namespace."""
    kept = {"ns": namespace}
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
            if step.given:
                assert answer.status < 300, answer.body
                return []
            return [_outcome(answer, kept["ns"], server.service_range)]
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
    try:
        async with server.transport.stream(_request(step, kept)) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] != "BOOKMARK" or b"initial-events-end" in line:
                    outcomes.append(Outcome(200, _normal(event, kept["ns"], server.service_range)))
    except ApiError as refused:
        told = {"reason": refused.status.reason, "message": refused.status.message}
        body = _normal(told, kept["ns"], server.service_range)
        outcomes.append(Outcome(refused.status.code, body))
    except KubeError as failed:
        outcomes.append(Outcome(0, str(failed)))
    return outcomes


async def _served(transport: Transport, crd: dict[str, Any]) -> None:
    """Wait until a definition's objects are served: real servers take a moment."""
    spec = crd["spec"]
    version = next(one["name"] for one in spec["versions"] if one["storage"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    async with asyncio.timeout(10):
        while (await transport.send(Request("GET", path))).status == 404:  # noqa: ASYNC110 - another process serves it
            await asyncio.sleep(0.05)


def _outcome(answer: Response, namespace: str, service_range: str) -> Outcome:
    try:
        body = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        body = answer.body.decode("utf-8", "replace")
    return Outcome(
        answer.status,
        _normal(body, namespace, service_range),
        answer.headers.get("warning", "").replace(namespace, "$ns"),
    )


def _normal(value: Any, namespace: str, service_range: str, name: str = "") -> Any:
    match value:
        case dict():
            return _normal_object(value, namespace, service_range)
        case list():
            return [_normal(one, namespace, service_range, name) for one in value]
        case str():
            return _normal_text(value, namespace, service_range, name)
        case int() if name in ("nodePort", "healthCheckNodePort"):
            return "$port"
        case _:
            return value


def _normal_object(value: dict[str, Any], namespace: str, service_range: str) -> dict[str, Any]:
    dropped = {"managedFields", "userInfo"}
    if "priority" in value and "format" in value:
        dropped.add("description")  # of a table's column
    normal = {
        name: _normal(inner, namespace, service_range, name)
        for name, inner in value.items()
        if name not in dropped
    }
    prefix = normal.get("generateName")
    if prefix and str(normal.get("name", "")).startswith(prefix):
        normal["name"] = f"{prefix}$generated"
    return normal


def _normal_text(text: str, namespace: str, service_range: str, name: str) -> str:
    if name in UNLIKE and text:
        return f"${name}"
    if name == "cells" and AGE.fullmatch(text):
        return "$age"
    network = ip_network(service_range)
    for quad in set(QUAD.findall(text)):
        try:
            inside = ip_address(quad) in network
        except ValueError:
            continue
        text = text.replace(quad, "$address") if inside else text
    for pattern, sign in SIGNS.items():
        text = pattern.sub(sign, text)
    return text.replace(namespace, "$ns")
