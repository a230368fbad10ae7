"""What the agents of a local federation see of each other, which no look from outside can tell."""

from collections.abc import Mapping

from hanse.cli.clusters import CONTROL, is_local, local_folder
from hanse.cli.settings import Settings
from hanse.local.up.control import ask
from hanse.local.up.failures import UpError
from hanse.local.up.orders import List

AgentsSee = Mapping[str, Mapping[str, str]]
"""By the cluster of an agent: each cluster that it reaches, and how that stands for it."""


async def seen_by_agents(settings: Settings) -> AgentsSee:
    """As the federation itself tells it; nothing where none runs."""
    if not is_local(settings):
        return {}
    try:
        told = await ask(local_folder(settings) / CONTROL, List())
    except (UpError, OSError):
        return {}  # it ends just now: the clusters themselves say so
    return {one.name: one.sees for one in told.clusters if one.agent}
