"""The client's transport to an embedded cluster without sockets."""

import pytest

from hanse.kube.errors import Invalid
from hanse.kube.transport import Request
from hanse.local.in_process import InProcessTransport
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import LoopClock

pytestmark = pytest.mark.anyio


async def test_a_request_is_answered_with_the_clients_response() -> None:
    transport = InProcessTransport(ApiServer("lubeck", clock=LoopClock()))

    answer = await transport.send(Request("GET", "/api/v1/namespaces/default"))

    assert answer.status == 200
    await transport.close()


async def test_a_watch_that_is_refused_raises_the_clients_error() -> None:
    transport = InProcessTransport(ApiServer("lubeck", clock=LoopClock()))
    query = (("watch", "true"), ("sendInitialEvents", "true"))

    with pytest.raises(Invalid, match="requires setting resourceVersionMatch"):
        async with transport.stream(Request("GET", "/api/v1/pods", query)):
            pass
