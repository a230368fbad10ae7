"""The end of a guard: by its DaemonSet, whether it comes back, and whether as a CNI plugin."""

import asyncio
from datetime import timedelta
from enum import Enum
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from hanse.kube.client_config import Credentials
from hanse.kube.errors import KubeError
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Request
from hanse.model.json_input import decode_json

GONE_TIMEOUT = timedelta(seconds=5)
GONE_TRIES = 15
"""How often a guard that ends asks for its DaemonSet: less than a pod may take."""
GONE_UNKNOWN = 3
"""How often in a row its account has to be unknown."""
RETRY_SECONDS = 1.0


class GuardEnd(Enum):
    """What comes after a guard that ends."""

    RESTART = "Restart"
    """Another guard, as far as is known: all stays."""
    NO_PLUGIN = "NoPlugin"
    """One without folders of the node, which could not take the CNI plugin away."""
    GONE = "Gone"
    """None: its DaemonSet was deleted."""


class _Volume(Struct, rename="camel"):
    host_path: dict[str, Any] | None = None


class _PodSpec(Struct):
    volumes: list[_Volume] = []


class _Template(Struct):
    spec: _PodSpec


class _DaemonSetSpec(Struct):
    template: _Template


class _DaemonSet(Struct):
    spec: _DaemonSetSpec


async def find_end(credentials: Credentials, namespace: str, daemonset: str) -> GuardEnd:
    """What follows this guard, by its DaemonSet, as `_end_from_daemonset`; GONE if there is none.

    RESTART if that cannot be read. While the server answers 401 or 403 it is asked up to
    `GONE_TRIES` times, a second apart; GONE after `GONE_UNKNOWN` answers 401 in a row, as accounts
    go with an installation.
    """
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{daemonset}"
    transport, unknown = HttpTransport(credentials), 0
    try:
        for _ in range(GONE_TRIES):
            answer = await transport.send(Request("GET", path, timeout=GONE_TIMEOUT))
            match answer.status:
                case HTTPStatus.UNAUTHORIZED:
                    unknown += 1
                    if unknown == GONE_UNKNOWN:
                        return GuardEnd.GONE
                case HTTPStatus.FORBIDDEN:  # rights may go before the account
                    unknown = 0
                case HTTPStatus.OK:
                    return _end_from_daemonset(answer.body)
                case HTTPStatus.NOT_FOUND:
                    return GuardEnd.GONE
                case _:
                    return GuardEnd.RESTART
            await asyncio.sleep(RETRY_SECONDS)
    except KubeError:
        return GuardEnd.RESTART
    finally:
        await transport.close()
    return GuardEnd.RESTART


def _end_from_daemonset(body: bytes) -> GuardEnd:
    """GONE for a DaemonSet (JSON) that is being deleted, NO_PLUGIN for one without hostPaths.

    Else RESTART, also if it is malformed.
    """
    if b'"deletionTimestamp"' in body:
        return GuardEnd.GONE
    try:
        volumes = decode_json(body, type=_DaemonSet).spec.template.spec.volumes
    except msgspec.DecodeError:
        return GuardEnd.RESTART
    mounted = any(volume.host_path is not None for volume in volumes)
    return GuardEnd.RESTART if mounted else GuardEnd.NO_PLUGIN
