"""Faults of the processes of real clusters, by signals."""

from collections.abc import Sequence
from datetime import timedelta

from hanse.model.objects import ClusterId
from tests.support.simulator.fleet import Fleet, server_party
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import EVERYWHERE, step
from tests.support.testbed_kubernetes import KubernetesTestbed


class Signals:
    """Servers that are stopped and go on."""

    name = "signals"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def open(self) -> None:
        """Nothing: faults come later."""

    async def heal(self) -> None:
        """Nothing: each fault ends in its step."""

    def laws(self) -> Sequence[Law]:
        return ()

    @step(2, cluster=EVERYWHERE, seconds=(5, 15))
    async def freeze(self, cluster: ClusterId, seconds: int) -> None:
        """An API server accepts requests and answers none, as one that swaps."""
        testbed = self._fleet.testbed
        assert isinstance(testbed, KubernetesTestbed)
        self._fleet.disturb(server_party(cluster))
        await testbed.freeze_server(cluster, timedelta(seconds=seconds))
        self._fleet.disturb(server_party(cluster))
