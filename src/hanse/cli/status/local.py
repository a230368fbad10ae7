"""What only a running local federation knows: its agents' connections and DNS ports."""

from collections.abc import Mapping

from msgspec import Struct

from hanse.cli.clusters import CONTROL_SOCKET, is_local, local_folder
from hanse.cli.settings import GlobalOptions
from hanse.local.up.control import GetStatus, send_request
from hanse.local.up.errors import UpError

ConnectionPhases = Mapping[str, Mapping[str, str]]
"""By the cluster of an agent: the phase of its connection to each cluster."""


class LocalFederationState(Struct, frozen=True):
    """The state of a local federation, from its control socket."""

    phases: ConnectionPhases = {}
    dns: Mapping[str, str] = {}
    """The DNS address of each cluster's view, as ADDRESS:PORT."""
    network_dns: Mapping[str, Mapping[str, str]] = {}
    """The DNS address of each tenant network, by cluster and network."""
    clusterless_dns: str = ""
    metrics: Mapping[str, str] = {}
    """The URL of the metrics of each cluster's agent, while it runs."""


async def read_local_state(settings: GlobalOptions) -> LocalFederationState:
    """Ask the local federation's control socket for its state.

    Empty if no federation runs there, or it does not answer; nothing is raised then.
    """
    if not is_local(settings):
        return LocalFederationState()
    try:
        state = await send_request(local_folder(settings) / CONTROL_SOCKET, GetStatus())
    except (UpError, OSError):
        return LocalFederationState()  # it is stopping, which the inventory reports
    return LocalFederationState(
        phases={one.name: one.sees for one in state.clusters if one.agent},
        dns={one.name: one.dns for one in state.clusters if one.dns},
        network_dns={one.name: one.network_dns for one in state.clusters},
        clusterless_dns=state.dns,
        metrics={one.name: one.metrics for one in state.clusters if one.metrics},
    )
