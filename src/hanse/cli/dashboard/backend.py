"""What the dashboard shows of the agents of this process, and what can be asked of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hanse import app
from hanse.cli.errors import InputError
from hanse.cli.plan.changes import change_rows, plan_changes_in_process
from hanse.cli.plan.documents import parse_documents
from hanse.cli.resolve.command import full_name, record_type
from hanse.dns.explain import explain
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.kube.transport import Transport
from hanse.model.dns.zones import View
from hanse.model.naming import ZONE
from hanse.model.snapshot import Change
from hanse.web.dashboard.items import ItemCache
from hanse.web.dashboard.sections import sections
from hanse.web.dashboard.server import ActionRefused
from hanse.web.dashboard.snapshot import MultiClusterSnapshot
from hanse.web.dashboard.updates import LiveUpdates, LocalStateSource

PATIENCE = 20.0
"""Seconds in which what is asked by a page must be found out."""

TransportFor = Callable[[str], Transport | None]
"""A way to a cluster for a dry run; None where there is no such cluster, or no right to it."""


class DashboardBackend:
    """Everything that agents see, side by side."""

    def __init__(self, way_to: TransportFor, surroundings: LocalStateSource | None = None) -> None:
        self._agents: dict[str, app.Agent] = {}
        self._transport_for = way_to
        self.live = LiveUpdates(ItemCache(sections(), self._sights), surroundings)

    @asynccontextmanager
    async def showing(self, agent: app.Agent) -> AsyncIterator[None]:
        """Show what an agent sees until the block ends."""
        name = agent.settings.cluster

        def on_change(change: Change) -> None:
            self.live.on_change(name, change)

        self._agents[name] = agent
        agent.reconciler.event_handlers.append(on_change)
        try:
            yield
        finally:
            agent.reconciler.event_handlers.remove(on_change)
            del self._agents[name]

    async def resolve(self, query: Mapping[str, Any]) -> Any:
        """What each cluster's clients are answered, and why."""
        try:
            name = full_name(str(query.get("name", "")), ZONE)
            rtype = record_type(str(query.get("type", "A")))
        except InputError as oops:
            raise ActionRefused(oops.message) from None
        answers = []
        for cluster, agent in self._agents.items():
            told = explain(name, rtype, View(cluster, local=cluster), agent.reconciler.snapshot())
            answers.append({"view": cluster, **msgspec.to_builtins(told)})
        return {"name": name, "answers": answers}

    async def plan(self, query: Mapping[str, Any]) -> Any:
        """What would change where if something were applied."""
        where, text = str(query.get("cluster", "")), str(query.get("yaml", ""))
        way = self._transport_for(where)
        if way is None:
            raise ActionRefused(
                f"nothing can be tried in {where!r} from here; choose another cluster"
            )
        client = Client(way)
        reconcilers = {name: agent.reconciler for name, agent in self._agents.items()}
        try:
            async with asyncio.timeout(PATIENCE):
                shown = await plan_changes_in_process(
                    reconcilers, client, where, parse_documents(text, "line")
                )
        except TimeoutError:
            raise ActionRefused(f"{where} did not answer within {PATIENCE:.0f} s") from None
        except InputError as oops:
            raise ActionRefused(oops.message) from None
        except KubeError as error:
            raise ActionRefused(str(error)) from None
        finally:
            await client.close()
        return {"changes": change_rows(shown)}

    def _sights(self) -> MultiClusterSnapshot:
        return MultiClusterSnapshot(
            {name: agent.reconciler.snapshot() for name, agent in self._agents.items()}
        )
