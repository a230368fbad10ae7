"""What the agents of a local federation see of each other, which no look from outside can tell."""

from collections.abc import Mapping

from msgspec import Struct

from hanse.cli.clusters import CONTROL, is_local, local_folder
from hanse.cli.settings import Settings
from hanse.local.up.control import GetStatus, send_request
from hanse.local.up.errors import UpError

ConnectionPhases = Mapping[str, Mapping[str, str]]
"""By the cluster of an agent: each cluster that it reaches, and how that stands for it."""


class LocalFederationState(Struct, frozen=True):
    """What only a local federation itself can tell."""

    sees: ConnectionPhases = {}
    dns: Mapping[str, str] = {}
    """Where each cluster's view of names answers, as ADDRESS:PORT."""
    network_dns: ConnectionPhases = {}
    """The same of its tenant networks, by cluster and network."""
    dns_of_nobody: str = ""


async def read_local_state(settings: Settings) -> LocalFederationState:
    """As the federation itself tells it; nothing where none runs."""
    if not is_local(settings):
        return LocalFederationState()
    try:
        told = await send_request(local_folder(settings) / CONTROL, GetStatus())
    except (UpError, OSError):
        return LocalFederationState()  # it ends just now: the clusters themselves say so
    return LocalFederationState(
        sees={one.name: one.sees for one in told.clusters if one.agent},
        dns={one.name: one.dns for one in told.clusters if one.dns},
        network_dns={one.name: one.network_dns for one in told.clusters},
        dns_of_nobody=told.dns,
    )
