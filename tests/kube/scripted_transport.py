"""A transport with scripted responses that records its requests."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hanse.kube.errors import KubeError, Unreachable
from hanse.kube.transport import Request, Response


class Pause(Struct, frozen=True):
    """Virtual seconds before what follows."""

    seconds: float


class Lines(Struct, frozen=True):
    """A watch that stands: its lines, then silence, an error, or an end: early, or in time."""

    lines: tuple[bytes | Pause, ...] = ()
    ends: KubeError | Literal["silence", "early", "in time"] = "silence"


Step = Response | Lines | KubeError | Pause


class ScriptedTransport:
    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[Request] = []
        self.closed = False

    async def send(self, request: Request) -> Response:
        step = await self._next(request)
        assert isinstance(step, Response), f"{request.target} came where {step} was expected"
        return step

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        step = await self._next(request)
        assert isinstance(step, Lines), f"{request.target} came where {step} was expected"
        yield self._lines(step, float(dict(request.query)["timeoutSeconds"]))

    async def close(self) -> None:
        self.closed = True

    async def _next(self, request: Request) -> Step:
        self.requests.append(request)
        if not self.steps:
            raise Unreachable("the script is at its end")
        step = self.steps.pop(0)
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            step = self.steps.pop(0)
        if isinstance(step, KubeError):
            raise step
        return step

    async def _lines(self, step: Lines, timeout_seconds: float) -> AsyncIterator[bytes]:
        for line in step.lines:
            if isinstance(line, Pause):
                await asyncio.sleep(line.seconds)
            else:
                yield line
        if isinstance(step.ends, KubeError):
            raise step.ends
        if step.ends == "in time":
            await asyncio.sleep(timeout_seconds)
        if step.ends == "silence":
            await asyncio.Event().wait()


def answer(body: Mapping[str, Any], status: int = 200, **headers: str) -> Response:
    names = {key.replace("_", "-"): value for key, value in headers.items()}
    return Response(status, msgspec.json.encode(body), names)


def refusal(code: int, reason: str = "", message: str = "", **headers: str) -> Response:
    return answer(status_of(code, reason, message), code, **headers)


def status_of(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def service(name: str, version: int, **spec: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def page(*items: Mapping[str, Any], version: int, after: str = "") -> Response:
    meta = {"resourceVersion": str(version), "continue": after}
    return answer({"kind": "ServiceList", "metadata": meta, "items": list(items)})


def line(type_: str, obj: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj})


def bookmark(version: int, *, ends_list: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if ends_list else {}
    meta = {"resourceVersion": str(version), "annotations": annotations}
    return line("BOOKMARK", {"kind": "Service", "metadata": meta})
