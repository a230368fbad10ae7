"""What a dashboard shows of the agents in this process, and the actions that it offers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hanse.app.agent import Agent
from hanse.app.explain import explain
from hanse.cli.errors import InputError
from hanse.cli.plan.changes import change_rows, plan_changes_in_process
from hanse.cli.plan.documents import parse_documents
from hanse.cli.resolve.command import full_name, record_type
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

ACTION_TIMEOUT = 20.0
"""Seconds that an action of the page may take."""

TransportFor = Callable[[str], Transport | None]
"""A transport for dry runs in a cluster; None where there is none, or no right to use it."""


class DashboardBackend:
    """The snapshots of all agents as one dashboard, with its actions."""

    def __init__(
        self, transport_for: TransportFor, local_state: LocalStateSource | None = None
    ) -> None:
        self._agents: dict[str, Agent] = {}
        self._transport_for = transport_for
        self.updates = LiveUpdates(ItemCache(sections(), self._snapshot), local_state)

    @asynccontextmanager
    async def showing(self, agent: Agent) -> AsyncIterator[None]:
        """Include an agent's snapshot until the block ends."""
        name = agent.settings.cluster

        def on_change(change: Change) -> None:
            self.updates.on_change(name, change)

        self._agents[name] = agent
        agent.reconciler.event_handlers.append(on_change)
        try:
            yield
        finally:
            agent.reconciler.event_handlers.remove(on_change)
            del self._agents[name]

    async def resolve(self, query: Mapping[str, Any]) -> Any:
        """The DNS answer for each cluster's clients, with the reasons."""
        try:
            name = full_name(str(query.get("name", "")), ZONE)
            rtype = record_type(str(query.get("type", "A")))
        except InputError as error:
            raise ActionRefused(error.message) from None
        answers = []
        for cluster, agent in self._agents.items():
            snapshot = agent.reconciler.snapshot()
            explanation = explain(name, rtype, View(cluster, local=cluster), snapshot)
            answers.append({"view": cluster, **msgspec.to_builtins(explanation)})
        return {"name": name, "answers": answers}

    async def plan(self, query: Mapping[str, Any]) -> Any:
        """The changes that applying YAML to a cluster would cause."""
        where, text = str(query.get("cluster", "")), str(query.get("yaml", ""))
        transport = self._transport_for(where)
        if transport is None:
            raise ActionRefused(
                f"nothing can be tried in {where!r} from here; choose another cluster"
            )
        client = Client(transport)
        reconcilers = {name: agent.reconciler for name, agent in self._agents.items()}
        try:
            async with asyncio.timeout(ACTION_TIMEOUT):
                planned = await plan_changes_in_process(
                    reconcilers, client, where, parse_documents(text, "line")
                )
        except TimeoutError:
            raise ActionRefused(f"{where} did not answer within {ACTION_TIMEOUT:.0f} s") from None
        except InputError as error:
            raise ActionRefused(error.message) from None
        except KubeError as error:
            raise ActionRefused(str(error)) from None
        finally:
            await client.close()
        return {"changes": change_rows(planned)}

    def _snapshot(self) -> MultiClusterSnapshot:
        return MultiClusterSnapshot(
            {name: agent.reconciler.snapshot() for name, agent in self._agents.items()}
        )
