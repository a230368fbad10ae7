"""Whether an agent runs is judged by its API server's clock, not by that of this machine."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from msgspec.structs import replace

from hanse.cli.agent.running import running_agent
from hanse.kube.client import Client
from hanse.kube.lease import format_micro_time, new_lease
from hanse.kube.transport import Request, Response
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.coordination import LeaseSpec
from hanse.model.kinds.core import Namespace
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Meta
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio


class _Clock:
    """A clock that differs from this machine's."""

    def __init__(self, ahead: timedelta) -> None:
        self.ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class _Dated(InProcessTransport):
    """A transport whose responses have a date, as those over HTTP."""

    def __init__(self, server: ApiServer, clock: _Clock) -> None:
        super().__init__(server)
        self._clock = clock

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        date = format_datetime(self._clock.now())
        return replace(response, headers={**response.headers, "date": date})


@pytest.mark.parametrize("ahead", [timedelta(minutes=-5), timedelta(minutes=5)], ids=str)
@pytest.mark.parametrize(("silent", "running"), [(0, "rome"), (60, "")], ids=["renewed", "silent"])
async def test_an_agent_runs_by_the_clock_of_its_api_server(
    ahead: timedelta, silent: int, running: str
) -> None:
    clock = _Clock(ahead)
    client = Client(_Dated(ApiServer("rome", clock=clock), clock))
    await client.create(Namespace(metadata=Meta(name=SYSTEM_NAMESPACE)))
    renewed = format_micro_time(clock.now())
    spec = LeaseSpec(holder_identity="rome_pod", lease_duration_seconds=15, renew_time=renewed)
    await client.create(new_lease(SYSTEM_NAMESPACE, AGENT, spec))
    clock.ahead += timedelta(seconds=silent)

    assert await running_agent(client) == running
