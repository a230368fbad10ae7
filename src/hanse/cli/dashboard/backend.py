"""What the dashboard shows of the agents of this process, and what can be asked of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hanse import app
from hanse.cli.errors import Oops
from hanse.cli.plan.changes import changes_of, outlook_among
from hanse.cli.plan.documents import documents_in
from hanse.cli.resolve.command import record_type, whole_name
from hanse.dns.explain import explain
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.kube.transport import Transport
from hanse.model.dns.zones import View
from hanse.model.naming import ZONE
from hanse.model.snapshot import Change
from hanse.web.dashboard.items import Board
from hanse.web.dashboard.live import Live, Surroundings
from hanse.web.dashboard.sections import sections
from hanse.web.dashboard.server import Refusal
from hanse.web.dashboard.snapshot import Sights

PATIENCE = 20.0
"""Seconds in which what is asked by a page must be found out."""

WayTo = Callable[[str], Transport | None]
"""A way to a cluster for a dry run; None where there is no such cluster, or no right to it."""


class Window:
    """Everything that agents see, side by side."""

    def __init__(self, way_to: WayTo, surroundings: Surroundings | None = None) -> None:
        self._agents: dict[str, app.Agent] = {}
        self._way_to = way_to
        self.live = Live(Board(sections(), self._sights), surroundings)

    @asynccontextmanager
    async def onto(self, agent: app.Agent) -> AsyncIterator[None]:
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

    async def resolve(self, wish: Mapping[str, Any]) -> Any:
        """What each cluster's clients are answered, and why."""
        try:
            name = whole_name(str(wish.get("name", "")), ZONE)
            rtype = record_type(str(wish.get("type", "A")))
        except Oops as oops:
            raise Refusal(oops.message) from None
        answers = []
        for cluster, agent in self._agents.items():
            told = explain(name, rtype, View(cluster, local=cluster), agent.reconciler.snapshot())
            answers.append({"view": cluster, **msgspec.to_builtins(told)})
        return {"name": name, "answers": answers}

    async def plan(self, wish: Mapping[str, Any]) -> Any:
        """What would change where if something were applied."""
        where, text = str(wish.get("cluster", "")), str(wish.get("yaml", ""))
        way = self._way_to(where)
        if way is None:
            raise Refusal(f"nothing can be tried in {where!r} from here; choose another cluster")
        client = Client(way)
        reconcilers = {name: agent.reconciler for name, agent in self._agents.items()}
        try:
            async with asyncio.timeout(PATIENCE):
                shown = await outlook_among(reconcilers, client, where, documents_in(text, "line"))
        except TimeoutError:
            raise Refusal(f"{where} did not answer within {PATIENCE:.0f} s") from None
        except Oops as oops:
            raise Refusal(oops.message) from None
        except KubeError as error:
            raise Refusal(str(error)) from None
        finally:
            await client.close()
        return {"changes": changes_of(shown)}

    def _sights(self) -> Sights:
        return Sights({name: agent.reconciler.snapshot() for name, agent in self._agents.items()})
