"""Putting into a cluster what it holds from the start; what stands there already stays."""

import asyncio
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import timedelta

import msgspec

from hanse.kube.errors import error_of
from hanse.kube.request import MERGE_PATCH, Request, Response, Transport
from hanse.local.up.sample import (
    CLUSTER_SET,
    DEFINITIONS,
    IDENTITY,
    SIGNS_OF_LIFE,
    Wanted,
    is_ready,
)

PATIENCE = timedelta(seconds=30)
_LOOK_AGAIN = timedelta(milliseconds=20)


async def install_definitions(transport: Transport, wanted: Sequence[Wanted]) -> None:
    """Define kinds, or bring them to our version, and wait until they are served."""
    await asyncio.gather(*(_defined(transport, one) for one in wanted))
    names = {one.object["metadata"]["name"] for one in wanted}
    while not names <= await _established(transport):  # noqa: ASYNC110 - a server tells nobody
        await asyncio.sleep(_LOOK_AGAIN.total_seconds())


async def install(transport: Transport, wanted: Iterable[Wanted]) -> None:
    """Create objects in order; one that is there may have been changed by a person, and stays."""
    for one in wanted:
        await install_new(transport, one)


async def install_new(transport: Transport, wanted: Wanted) -> bool:
    """Create an object unless it is there; whether it is new."""
    answer = await _create(transport, wanted)
    if answer.status == 409:
        return False
    _successful(answer)
    return True


async def renew(transport: Transport, wanted: Wanted) -> None:
    """Bring the data of an object that is there up to date: credentials are new at every start."""
    body = msgspec.json.encode({"data": wanted.object["data"]})
    request = Request("PATCH", wanted.path, body=body, content_type=MERGE_PATCH)
    answer = await transport.send(request)
    if answer.status != 404:
        _successful(answer)


async def mark(transport: Transport, wanted: Wanted) -> None:
    """Create an object; of one that is there only the annotations are ours."""
    if await install_new(transport, wanted):
        return
    marks = {"annotations": wanted.object["metadata"]["annotations"]}
    body = msgspec.json.encode({"metadata": marks})
    request = Request("PATCH", wanted.path, body=body, content_type=MERGE_PATCH)
    _successful(await transport.send(request))


async def uid_of(transport: Transport) -> str:
    """What tells a cluster from every other; a new server takes a moment until it has it."""
    while (answer := await transport.send(Request("GET", IDENTITY))).status == 404:  # noqa: ASYNC110 - the same
        await asyncio.sleep(_LOOK_AGAIN.total_seconds())
    return str(msgspec.json.decode(_successful(answer).body)["metadata"]["uid"])


async def follow_profile(transport: Transport, profile: str) -> None:
    """Let the fleet follow other rules, whatever it followed before."""
    body = msgspec.json.encode({"spec": {"profile": profile}})
    request = Request("PATCH", CLUSTER_SET.path, body=body, content_type=MERGE_PATCH)
    _successful(await transport.send(request))


async def await_ready(transport: Transport, wanted: Wanted) -> bool:
    """Wait until an object does what it is there for, or for as long as that may take."""
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while not await _is_ready(transport, wanted):  # noqa: ASYNC110 - the same
                await asyncio.sleep(_LOOK_AGAIN.total_seconds())
    except TimeoutError:
        return False
    return True


async def await_signs_of_life(transport: Transport, clusters: AbstractSet[str]) -> None:
    """Wait until every cluster's agent has shown itself on the broker, for as long as it may."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while not clusters <= await _alive(transport):  # noqa: ASYNC110 - the same
                await asyncio.sleep(_LOOK_AGAIN.total_seconds())


async def _alive(transport: Transport) -> set[str]:
    answer = _successful(await transport.send(Request("GET", SIGNS_OF_LIFE)))
    leases = msgspec.json.decode(answer.body)["items"]
    return {one["metadata"]["name"] for one in leases if one["spec"].get("holderIdentity")}


async def _is_ready(transport: Transport, wanted: Wanted) -> bool:
    answer = _successful(await transport.send(Request("GET", wanted.path)))
    return is_ready(msgspec.json.decode(answer.body))


async def _defined(transport: Transport, wanted: Wanted) -> None:
    answer = await _create(transport, wanted)
    if answer.status == 409:
        body = msgspec.json.encode({"spec": wanted.object["spec"]})
        answer = await transport.send(
            Request("PATCH", wanted.path, body=body, content_type=MERGE_PATCH)
        )
    _successful(answer)


async def _create(transport: Transport, wanted: Wanted) -> Response:
    body = msgspec.json.encode(wanted.object)
    return await transport.send(Request("POST", wanted.collection, body=body))


async def _established(transport: Transport) -> set[str]:
    answer = _successful(await transport.send(Request("GET", DEFINITIONS)))
    return {
        one["metadata"]["name"]
        for one in msgspec.json.decode(answer.body)["items"]
        if any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in one.get("status", {}).get("conditions") or ()
        )
    }


def _successful(answer: Response) -> Response:
    if not 200 <= answer.status < 300:
        raise error_of(answer)
    return answer
