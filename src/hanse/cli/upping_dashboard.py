"""The dashboard of a local federation: all agents side by side, and its faults by click."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hanse import app
from hanse.cli.documents import documents_in
from hanse.cli.oops import Oops
from hanse.cli.planning import changes_of, outlook_among
from hanse.cli.resolve import record_type, whole_name
from hanse.dashboard.board import Board
from hanse.dashboard.entry import Entry
from hanse.dashboard.live import Live
from hanse.dashboard.server import Doors, Refusal, serving
from hanse.dashboard.sights import Sights
from hanse.dns.explain import explain
from hanse.dns.zone import View
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.local.up.failures import UpError
from hanse.local.up.federation import Federation
from hanse.local.up.orders import AnyOrder
from hanse.model.snapshot import Change

LOOPBACK = "127.0.0.1"
ZONE = "clusterset.local"


class LocalDashboard:
    """One page over everything that runs here."""

    def __init__(self, port: int) -> None:
        self._listener = _bound(port)
        self._entry = Entry()
        self._agents: dict[str, app.Agent] = {}
        self._whole: Federation | None = None
        self._live = Live(Board(app.sections(), self._sights), self._surroundings)

    @property
    def address(self) -> str:
        """Where the page is."""
        return "http://{}:{}".format(*self._listener.getsockname()[:2])

    def enter(self) -> str:
        """A link that lets a browser in, once."""
        return f"{self.address}/enter/{self._entry.code()}"

    @property
    def token(self) -> str:
        """What a program shows to be let in."""
        return self._entry.token

    @asynccontextmanager
    async def shown_by(self, agent: app.Agent) -> AsyncIterator[None]:
        """Show what an agent sees for as long as it runs."""
        name = agent.settings.cluster

        def saw(change: Change) -> None:
            self._live.saw(name, change)

        self._agents[name] = agent
        agent.engine.followers.append(saw)
        try:
            yield
        finally:
            agent.engine.followers.remove(saw)
            del self._agents[name]

    @asynccontextmanager
    async def running(self, whole: Federation) -> AsyncIterator[None]:
        """Show the page until the block ends."""
        self._whole = whole
        doors = Doors(resolve=self._resolve, plan=self._plan, order=self._order)
        async with serving(self._live, self._entry, doors, self._listener):
            yield

    def close(self) -> None:
        """Let go of the port."""
        self._listener.close()

    def _sights(self) -> Sights:
        return Sights({name: agent.engine.snapshot() for name, agent in self._agents.items()})

    def _surroundings(self) -> Any:
        return self._whole.told() if self._whole is not None else None

    async def _resolve(self, wish: Mapping[str, Any]) -> Any:
        try:
            name = whole_name(str(wish.get("name", "")), ZONE)
            rtype = record_type(str(wish.get("type", "A")))
        except Oops as oops:
            raise Refusal(oops.message) from None
        answers = []
        for cluster, agent in self._agents.items():
            told = explain(name, rtype, View(cluster, local=cluster), agent.engine.snapshot())
            answers.append({"view": cluster, **msgspec.to_builtins(told)})
        return {"name": name, "answers": answers}

    async def _plan(self, wish: Mapping[str, Any]) -> Any:
        where, text = str(wish.get("cluster", "")), str(wish.get("yaml", ""))
        if self._whole is None or where not in self._whole.names:
            raise Refusal(f"there is no cluster {where!r} here")
        client = Client(self._whole.way_to(where))
        engines = {name: agent.engine for name, agent in self._agents.items()}
        try:
            shown = await outlook_among(engines, client, where, documents_in(text, "line"))
        except (Oops, KubeError) as error:
            raise Refusal(getattr(error, "message", str(error))) from None
        finally:
            await client.close()
        return {"changes": changes_of(shown)}

    async def _order(self, wish: Mapping[str, Any]) -> Any:
        assert self._whole is not None, "orders are taken while the federation runs"
        try:
            return await self._whole.carry_out(msgspec.convert(wish, AnyOrder))
        except msgspec.ValidationError as error:
            raise Refusal(f"that is no order: {error}") from None
        except UpError as error:
            raise Refusal(str(error)) from None


def _bound(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = error.strerror or str(error)
        raise Oops(
            f"--dashboard-port: cannot listen on {LOOPBACK}:{port} ({reason}); choose another"
        ) from None
