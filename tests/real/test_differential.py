"""The recorded responses of a real API server are those of the current one.

With `HANSE_RECORD=1` in the environment its responses are recorded instead.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.server_tls import server_context
from hanse.kube.transport import Request, Transport
from hanse.local.real.fleet import RealFleet
from hanse.local.real.programs import CONTROLLER_MANAGER
from tests.differential.all_cases import CASES
from tests.differential.cases import Case
from tests.differential.recording import record, recorded
from tests.differential.runner import NormalizedAnswer, Server, run_case
from tests.differential.webhook_answers import admission_response

# One case sends more than a server takes, and aiohttp has an opinion on that.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")

AT_ONCE = 4
SERVICE_RANGE = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"


@asynccontextmanager
async def closing(transport: Transport) -> AsyncIterator[Transport]:
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def webhooks() -> AsyncIterator[tuple[str, bytes]]:
    """The webhooks of the cases over HTTPS: their URL and CA."""

    async def answer(request: web.BaseRequest) -> web.Response:
        try:
            return web.Response(body=admission_response(request.path, await request.read()))
        except ValueError as error:
            return web.Response(status=500, text=str(error))

    authority = CertificateAuthority.create("webhooks")
    context = server_context(authority.server("webhook"))
    loop = asyncio.get_running_loop()
    server = web.Server(answer)
    listener = await loop.create_server(server, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}", authority.certificate
    finally:
        listener.close()
        await server.shutdown()


@pytest.fixture(scope="module")
async def answers(
    binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, list[NormalizedAnswer]]]:
    """The responses of all cases, from a server without controllers."""
    async with RealFleet(tmp_path_factory.mktemp("alone"), binaries, names=()) as fleet:
        await fleet.broker.servers[CONTROLLER_MANAGER.name].stop()
        async with closing(fleet.broker.connect()) as transport, webhooks() as (url, authority):
            found = await transport.send(Request("GET", SERVICE_RANGE))
            ranges = msgspec.json.decode(found.body)["spec"]["cidrs"]
            bundle = base64.b64encode(authority).decode()
            yield await _run_cases(Server(transport, ranges[0], url, bundle, cache_delay=2))


async def _run_cases(server: Server) -> dict[str, list[NormalizedAnswer]]:
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, case: Case) -> list[NormalizedAnswer]:
        async with turn:
            return await run_case(server, case, f"differential-{number}")

    responses = await asyncio.gather(*(one(number, case) for number, case in enumerate(CASES)))
    return {case.name: outcomes for case, outcomes in zip(CASES, responses, strict=True)}


async def test_the_recorded_responses_are_those_of_a_real_server(
    answers: dict[str, list[NormalizedAnswer]],
) -> None:
    if os.environ.get("HANSE_RECORD"):
        record(answers)

    variables = recorded()
    changed = {name: answers[name] for name in variables if variables[name] != answers.get(name)}

    assert changed == {name: variables[name] for name in changed}
