"""The log level of an agent follows the GSLBConfig of its cluster."""

import logging
from collections.abc import Iterator
from random import Random
from typing import Literal

import pytest
from msgspec.structs import replace

from hanse.app.log_level import following_log_level
from hanse.features.gslb.feature import Gslb
from hanse.kube.watch_events import Deleted
from hanse.local.in_process import InProcessTransport
from hanse.model.facts import Role
from hanse.model.kinds.gslb import GSLBConfig
from hanse.model.snapshot import ObjectChange
from hanse.runtime.api import ClusterClient
from hanse.runtime.reconciler import Reconciler
from tests.features.gslb.fleet import config
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.fixture(autouse=True)
def started_with() -> Iterator[logging.Logger]:
    """The level that an agent is started with, and logging as it was afterwards."""
    root, before = logging.getLogger(), logging.getLogger().level
    root.setLevel(logging.INFO)
    yield root
    root.setLevel(before)
    logging.getLogger("asyncio").setLevel(logging.NOTSET)


class ConfigurableAgent:
    """An engine that sees one configuration after the other."""

    def __init__(self) -> None:
        self.reconciler = Reconciler([Gslb()], "lubeck", clock=LoopClock(), random=Random(0))
        server = ApiServer("lubeck", clock=LoopClock())
        self.reconciler.informers.join(
            "lubeck", {Role.LOCAL}, ClusterClient(InProcessTransport(server))
        )
        self._version = 0

    def result(self, level: Literal["DEBUG", "INFO", "WARN", "ERROR"]) -> GSLBConfig:
        made = config("lubeck", "hamburg")
        self._version += 1
        meta = replace(made.metadata, uid="1", resource_version=str(self._version))
        obj = replace(made, metadata=meta, spec=replace(made.spec, log_level=level))
        self.reconciler.informers.observe_write("lubeck", obj)
        return obj

    def gone(self, obj: GSLBConfig) -> None:
        for store in self.reconciler.informers.stores_of("lubeck", GSLBConfig.kind):
            store.apply_event(Deleted(obj))
        for follower in self.reconciler.event_handlers:
            follower(ObjectChange("lubeck", obj, None))


async def test_the_level_follows_the_configuration(started_with: logging.Logger) -> None:
    agent = ConfigurableAgent()

    with following_log_level(agent.reconciler):
        levels = []
        for result in ("DEBUG", "WARN", "ERROR", "INFO"):
            agent.result(result)
            levels.append(started_with.level)

    assert levels == [logging.DEBUG, logging.WARNING, logging.ERROR, logging.INFO]


async def test_it_is_the_agents_own_again_when_the_configuration_goes(
    started_with: logging.Logger,
) -> None:
    agent = ConfigurableAgent()

    with following_log_level(agent.reconciler):
        agent.gone(agent.result("ERROR"))

        assert started_with.level == logging.INFO


async def test_verbose_is_never_made_quieter(started_with: logging.Logger) -> None:
    agent = ConfigurableAgent()
    started_with.setLevel(logging.DEBUG)

    with following_log_level(agent.reconciler):
        agent.result("ERROR")

        assert started_with.level == logging.DEBUG
