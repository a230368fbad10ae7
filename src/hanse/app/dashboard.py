"""The dashboard over the agents of this process: what it shows, and DNS answers with reasons."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hanse.app.agent import Agent
from hanse.app.explain import InvalidQuestion, explain, full_name, record_type
from hanse.app.preview import Reconcilers
from hanse.app.views import views
from hanse.model.dns.zones import View
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.naming import ZONE
from hanse.model.snapshot import Change
from hanse.web.dashboard.actions import Action, ActionRefused, PageActions
from hanse.web.dashboard.auth import Authenticator
from hanse.web.dashboard.items import ItemCache
from hanse.web.dashboard.server import serving
from hanse.web.dashboard.updates import LiveUpdates, LocalStateSource


class Dashboard:
    """The snapshots of all agents as one dashboard."""

    def __init__(self, auth: Authenticator, local_state: LocalStateSource | None = None) -> None:
        """A dashboard without agents, which `showing` adds.

        With `local_state` the agents are those of a local federation, whose state is shown, too.
        """
        self._auth = auth
        self._agents: dict[str, Agent] = {}
        self._local = local_state is not None
        self._updates = LiveUpdates(ItemCache(views(), self._snapshot), local_state)

    @property
    def reconcilers(self) -> Reconcilers:
        """The reconcilers of the agents that are shown, by cluster."""
        return {name: agent.reconciler for name, agent in self._agents.items()}

    @asynccontextmanager
    async def showing(self, agent: Agent) -> AsyncIterator[None]:
        """Include an agent's snapshot, and push its changes to the page, until the block ends.

        Agents are known by their cluster.
        """
        name = agent.settings.cluster

        def on_change(change: Change) -> None:
            """Pass a change of this agent on to the live updates, which push it to the page."""
            self._updates.on_change(name, change)

        self._agents[name] = agent
        agent.reconciler.event_handlers.append(on_change)
        try:
            yield
        finally:
            agent.reconciler.event_handlers.remove(on_change)
            del self._agents[name]

    @asynccontextmanager
    async def serving(
        self,
        listener: socket.socket,
        hosts: tuple[str, ...] = (),
        *,
        plan: Action | None = None,
        order: Action | None = None,
    ) -> AsyncIterator[None]:
        """Serve the page until the block ends, for requests with these host names or of loopback.

        DNS questions are always answered; `plan` and `order` are further actions, if given.
        """
        actions = PageActions(self._resolve, plan, order)
        async with serving(self._updates, self._auth, actions, listener, hosts):
            yield

    async def _resolve(self, query: Mapping[str, Any]) -> Any:
        """The full `name` of a DNS question, and `answers` with reasons, one for each agent's view.

        A short name is one of the zone, and the type is A by default. Raises `ActionRefused` for an
        invalid name or type.
        """
        try:
            name = full_name(str(query.get("name", "")), ZONE)
            rtype = record_type(str(query.get("type", "A")))
        except InvalidQuestion as error:
            raise ActionRefused(str(error)) from None
        answers = []
        for cluster, agent in self._agents.items():
            snapshot = agent.reconciler.snapshot()
            explanation = explain(name, rtype, View(cluster, local=cluster), snapshot)
            answers.append({"view": cluster, **msgspec.to_builtins(explanation)})
        return {"name": name, "answers": answers}

    def _snapshot(self) -> MultiClusterSnapshot:
        """The snapshots of all agents that are shown, taken now."""
        return MultiClusterSnapshot(
            {name: agent.reconciler.snapshot() for name, agent in self._agents.items()},
            local=self._local,
        )
