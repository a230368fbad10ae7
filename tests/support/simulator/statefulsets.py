"""Federated StatefulSets: replicas shared out over clusters, each in one place."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from hanse.features.statefulsets.names import LB_NEEDED
from hanse.kube.errors import NotFound
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Pod, Service
from hanse.model.objects import ClusterId
from tests.scenarios.statefulsets import KINDS, StatefulSetsScenario, spec_of
from tests.support.federation import install_crds
from tests.support.simulator.fleet import Fleet, find, is_live
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import BROKER, CLUSTERS, step

NAME = "store"
BUDGET = 1
"""Replicas of a set that may be unready by our doing."""


class StatefulSets:
    """One set, submitted at the broker."""

    name = "statefulsets"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._users = StatefulSetsScenario(fleet)
        self.edited = 0.0
        """When somebody last took replicas, or our objects, away by hand."""

    async def open(self) -> None:
        for cluster in self._fleet.everywhere:
            await install_crds(self._fleet, cluster, *KINDS)
        await self._fleet.make_namespace(BROKER, self._fleet.namespace)

    async def heal(self) -> None:
        """Nothing: what users do stands."""

    def laws(self) -> Sequence[Law]:
        return (ReplicasPlaced(self._fleet), BudgetKept(self._fleet, self))

    @step(4, opening=True, replicas=(1, 3, 5))
    async def launch(self, replicas: int) -> None:
        with suppress(NotFound):
            await self._fleet.admin(BROKER).delete(Service, "etcd", self._fleet.namespace)
        await self._users.launch(replicas)

    @step(4, replicas=(0, 2, 4, 6))
    async def scale(self, replicas: int) -> None:
        await self._edit({"spec": {"replicas": replicas}})

    @step(2, tag=("1", "2", "3"))
    async def update(self, tag: str) -> None:
        """A new image: every replica is replaced."""
        await self._edit({"spec": {"template": spec_of(image=f"etcd:{tag}").template}})

    @step(1, needed=("true", "false"))
    async def balance(self, needed: str) -> None:
        await self._edit({"metadata": {"annotations": {LB_NEEDED: needed}}})

    @step(1)
    async def remove(self) -> None:
        self.edited = self._fleet.now
        await self._fleet.admin(BROKER).delete(StatefulSet, NAME, self._fleet.namespace)

    async def _edit(self, change: dict[str, object]) -> None:
        await self._fleet.admin(BROKER).patch(StatefulSet, NAME, self._fleet.namespace, change)

    @step(1, cluster=CLUSTERS, replicas=(0, 9))
    async def edit_share(self, cluster: ClusterId, replicas: int) -> None:
        """Somebody scales a cluster's share by hand."""
        self.edited = self._fleet.now
        await self._fleet.hand(cluster).patch(
            StatefulSet,
            f"{NAME}-{cluster}",
            self._fleet.namespace,
            {"spec": {"replicas": replicas}},
        )

    @step(1, cluster=CLUSTERS)
    async def delete_share(self, cluster: ClusterId) -> None:
        """Somebody deletes a cluster's share by hand."""
        self.edited = self._fleet.now
        share = f"{NAME}-{cluster}"
        await self._fleet.hand(cluster).delete(StatefulSet, share, self._fleet.namespace)

    @step(1, cluster=CLUSTERS)
    async def delete_pod(self, cluster: ClusterId) -> None:
        self.edited = self._fleet.now
        with suppress(NotFound):
            pod = f"{NAME}-{cluster}-0"
            await self._fleet.hand(cluster).delete(Pod, pod, self._fleet.namespace)


async def _wanted(fleet: Fleet) -> int | None:
    """How many replicas users want; None without a set."""
    found = find(await fleet.objects(BROKER, StatefulSet, fleet.namespace), NAME)
    return None if found is None else int(found["spec"]["replicas"])


async def _ready(fleet: Fleet) -> int:
    """How many replicas are ready in all clusters."""
    ready = 0
    for cluster in fleet.names:
        for pod in await fleet.objects(cluster, Pod, fleet.namespace):
            conditions = pod.get("status", {}).get("conditions", ())
            is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            ours = pod["metadata"]["name"].startswith(f"{NAME}-{cluster}-")
            ready += ours and is_ready and is_live(pod)
    return ready


class ReplicasPlaced(Law):
    """A set runs as it was submitted."""

    name = "replicas-placed"
    sentence = "At rest exactly as many replicas run as the set asks for, and all are ready."

    async def at_rest(self) -> AsyncIterator[str]:
        fleet = self.fleet
        wanted, ready = await _wanted(fleet), await _ready(fleet)
        shares = {
            c: found["spec"]["replicas"]
            for c in fleet.names
            if (found := find(await fleet.objects(c, StatefulSet, fleet.namespace), f"{NAME}-{c}"))
        }
        if sum(shares.values()) != (wanted or 0) or ready != (wanted or 0):
            yield f"{wanted} replicas are wanted, shares are {shares}, {ready} are ready"


class BudgetKept(Law):
    """We take no more replicas than we may."""

    name = "budget-kept"
    sentence = f"At most {BUDGET} replica of a set is unready by our doing, whatever is changed."

    def __init__(self, fleet: Fleet, sets: StatefulSets) -> None:
        super().__init__(fleet)
        self._sets = sets
        self._running: tuple[int, float] | None = None
        """How many replicas were wanted and all ready, and when people last took some away."""

    async def observe(self) -> AsyncIterator[str]:
        wanted, ready = await _wanted(self.fleet), await _ready(self.fleet)
        taken = max(self._sets.edited, *self.fleet.restored_at.values(), 0)
        if wanted is not None and ready >= wanted:
            self._running = (wanted, taken)
        elif self._running is not None:
            before, at = self._running
            least = min(before, before if wanted is None else wanted) - BUDGET
            if at != taken:
                self._running = None
            elif ready < least:
                yield f"{ready} replicas are ready, not {least}, of {wanted} that are wanted"
