"""Federated StatefulSets: replicas shared out over clusters, each in one place."""

from collections.abc import AsyncIterator, ItemsView, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from hanse.features.statefulsets.names import LB_NEEDED, REBALANCE
from hanse.kube.errors import KubeError, NotFound
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Node, Pod, Service
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.objects import ClusterId, Meta, Wire
from tests.scenarios.statefulsets import (
    KINDS,
    UNSCHEDULABLE,
    StatefulSetsScenario,
    headless,
    spec_of,
    template,
)
from tests.support.federation import install_crds
from tests.support.simulator.exports import CAUGHT_UP, LAGGED
from tests.support.simulator.fleet import Fleet, find, is_live
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import BROKER, CLUSTERS, step
from tests.support.testbed_embedded import EmbeddedTestbed
from tinykube.storage import Change, Restored

NAME = "store"
WITH_DISK = {"kubernetes.io/os": "linux"}
"""The labels of nodes that replicas can run on: all nodes have them until one is lost."""
SURELY_AWAY = 45.0
"""Seconds of silence after which everybody knows that a cluster is away."""
CALM = 10.0
"""Seconds within which controllers have followed what people do."""
CERTAIN = 120.0
"""Seconds after which every agent knows of a lost replica, also one that was stopped meanwhile."""
BUDGET = 1
"""Replicas of a set that may be unready by our doing."""
REACTION = 1.0
"""Seconds for which a pod may still be taken by what was wanted before."""


class StatefulSets:
    """One set, submitted at the broker."""

    name = "statefulsets"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._users = StatefulSetsScenario(fleet)
        self.edited = 0.0
        """When somebody last took replicas, or our objects, away by hand."""
        self.removed = 0.0
        """When the set was last deleted."""
        self.orphaned: float | None = None
        """When the set was deleted and its replicas left; None if it was launched again since."""
        self.deleted: set[str] = set()
        """The uids of StatefulSets whose set was deleted: what runs of them goes at any time."""
        self._launched_over: float | None = None
        """When it was launched over replicas that an orphaned one had left."""
        self.lost: set[ClusterId] = set()
        """Clusters with a replica that no node takes."""

    async def open(self) -> None:
        for cluster in self._fleet.everywhere:
            await install_crds(self._fleet, cluster, *KINDS)
        await self._fleet.make_namespace(BROKER, self._fleet.namespace)

    async def heal(self) -> None:
        """Templates can run again, and nodes take pods; all else that users do stands."""
        for cluster in CLUSTERS:
            await self.restore_nodes(cluster)
        found = find(await self._fleet.objects(BROKER, StatefulSet, self._fleet.namespace), NAME)
        if found is not None and UNSCHEDULABLE["nodeSelector"].items() <= _node_selector(found):
            with suppress(NotFound):
                await self.update("1")

    def laws(self) -> Sequence[Law]:
        return (ReplicasPlaced(self._fleet, self), BudgetKept(self._fleet, self))

    @step(4, opening=True, replicas=(1, 3, 5))
    async def launch(self, replicas: int) -> None:
        with suppress(NotFound):
            await self._fleet.admin(BROKER).delete(Service, "etcd", self._fleet.namespace)
        space, broker = self._fleet.namespace, self._fleet.admin(BROKER)
        await broker.create(headless("etcd", space))
        spec = spec_of(replicas)
        pods = {**spec.template, "spec": {**spec.template["spec"], "nodeSelector": WITH_DISK}}
        meta = Meta(name=NAME, namespace=space)
        await broker.create(StatefulSet(metadata=meta, spec=replace(spec, template=pods)))
        self._launched_over = None if self.orphaned is None else self._fleet.now
        self.orphaned = None

    @step(4, replicas=(0, 2, 4, 6))
    async def scale(self, replicas: int) -> None:
        await self._edit({"spec": {"replicas": replicas}})

    @step(2, tag=("1", "2", "3"))
    async def update(self, tag: str) -> None:
        """A new image: every replica is replaced."""
        selector = {**dict.fromkeys(UNSCHEDULABLE["nodeSelector"]), **WITH_DISK}
        await self._edit({"spec": {"template": template(f"etcd:{tag}", nodeSelector=selector)}})

    @step(1, tag=("4", "5"))
    async def update_badly(self, tag: str) -> None:
        """A template that no node takes: replicas that get it do not start."""
        await self._edit({"spec": {"template": template(f"etcd:{tag}", **UNSCHEDULABLE)}})

    @step(1, wish=("a", "b"))
    async def rebalance(self, wish: str) -> None:
        await self._edit({"metadata": {"annotations": {REBALANCE: wish}}})

    @step(1, needed=("true", "false"))
    async def balance(self, needed: str) -> None:
        await self._edit({"metadata": {"annotations": {LB_NEEDED: needed}}})

    @step(1)
    async def remove(self) -> None:
        self.edited = self.removed = self._fleet.now
        await self._fleet.admin(BROKER).delete(StatefulSet, NAME, self._fleet.namespace)
        if self._may_be_unadopted():
            self.orphaned = self._fleet.now
        for cluster in self._fleet.names:
            with suppress(KubeError):
                found = await self._fleet.objects(cluster, StatefulSet, self._fleet.namespace)
                self.deleted |= {each["metadata"]["uid"] for each in found}

    def _may_be_unadopted(self) -> bool:
        """Whether a set is gone before every cluster has adopted what an orphaned one had left."""
        fleet, since = self._fleet, self._launched_over
        if since is None:
            return False
        works = max(fleet.works_since(cluster, BROKER) for cluster in fleet.names)
        return fleet.now - since < LAGGED or fleet.now - works < CAUGHT_UP

    @step(1, searched=True)
    async def orphan(self) -> None:
        """The set is deleted, and its replicas run on: `kubectl delete --cascade=orphan`."""
        space = self._fleet.namespace
        await self._fleet.admin(BROKER).delete(StatefulSet, NAME, space, propagation="Orphan")
        self.orphaned = self._fleet.now

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

    # -- nodes

    @step(1)
    async def protect(self) -> None:
        """Users allow one eviction at a time over all clusters."""
        await self._users.protect()

    @step(2, cluster=CLUSTERS)
    async def drain(self, cluster: ClusterId) -> None:
        """Somebody drains the node of a replica, and asks once whether it may go."""
        space = self._fleet.namespace
        pod = find(await self._fleet.objects(cluster, Pod, space), f"{NAME}-{cluster}-0")
        if pod is None or "nodeName" not in pod["spec"]:
            return
        await self._users.cordon(cluster, pod["spec"]["nodeName"])
        budgets = await self._fleet.objects(cluster, PodDisruptionBudget, space)
        if find(budgets, f"{NAME}-{cluster}") is None:  # nobody counts what may go
            self.edited = self._fleet.now
        await self._users.evict(cluster)

    @step(1, cluster=CLUSTERS)
    async def lose_node(self, cluster: ClusterId) -> None:
        """A node goes for ever with a replica, whose volume no other node can take.

        Nodes lose the label by which replicas are scheduled: nobody drains them.
        """
        for node in await self._fleet.objects(cluster, Node):
            await self._label(cluster, node, dict.fromkeys(WITH_DISK))
        await self.delete_pod(cluster)
        self.lost.add(cluster)

    @step(2, cluster=CLUSTERS)
    async def restore_nodes(self, cluster: ClusterId) -> None:
        """Nodes take pods again."""
        for node in await self._fleet.objects(cluster, Node):
            if node["spec"].get("unschedulable"):
                await self._users.cordon(cluster, node["metadata"]["name"], cordoned=False)
            if not WITH_DISK.items() <= node["metadata"]["labels"].items():
                await self._label(cluster, node, WITH_DISK)
        self.lost.discard(cluster)

    async def _label(
        self, cluster: ClusterId, node: Wire, labels: Mapping[str, str | None]
    ) -> None:
        """As `kubectl label node` does; None removes a label."""
        change = {"metadata": {"labels": dict(labels)}}
        await self._fleet.admin(cluster).patch(Node, node["metadata"]["name"], "", change)


def _node_selector(stateful_set: Wire) -> ItemsView[str, str]:
    """By which labels of nodes the pods of a set are scheduled."""
    pods = stateful_set["spec"]["template"]["spec"]
    return dict[str, str](pods.get("nodeSelector") or {}).items()


async def _wanted(fleet: Fleet) -> int | None:
    """How many replicas users want; None without a set."""
    found = find(await fleet.objects(BROKER, StatefulSet, fleet.namespace), NAME)
    return None if found is None else int(found["spec"]["replicas"])


async def _ready(fleet: Fleet, clusters: Sequence[ClusterId]) -> int:
    """How many replicas are ready in these clusters."""
    ready = 0
    for cluster in clusters:
        for pod in await fleet.objects(cluster, Pod, fleet.namespace):
            ready += _is_ready_replica(pod, cluster)
    return ready


def _is_ready_replica(pod: Wire, cluster: ClusterId) -> bool:
    """Whether a pod is a replica of the set that is ready and stays."""
    conditions = pod.get("status", {}).get("conditions", ())
    is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    ours = pod["metadata"]["name"].startswith(f"{NAME}-{cluster}-")
    return ours and is_ready and is_live(pod)


class ReplicasPlaced(Law):
    """A set runs as it was submitted."""

    name = "replicas-placed"
    sentence = (
        "At rest exactly as many replicas run as the set asks for, and all are ready; where a "
        "cluster has left, which keeps what it has, those that the others were given. A set that "
        f"is deleted within {CAUGHT_UP:.0f} s of a loss of the broker's namespace may run on, and "
        "so may replicas of one that was orphaned, if the next is deleted before all clusters "
        "could adopt them."
    )

    def __init__(self, fleet: Fleet, sets: StatefulSets) -> None:
        super().__init__(fleet)
        self._sets = sets

    async def at_rest(self) -> AsyncIterator[str]:
        fleet = self.fleet
        members = [name for name in fleet.names if name not in fleet.left]
        wanted, ready = await _wanted(fleet), await _ready(fleet, members)
        orphaned, removed = self._sets.orphaned is not None, self._sets.removed
        unreported = (
            fleet.namespace_lost_at - CAUGHT_UP < removed < (fleet.namespace_back_at + CAUGHT_UP)
        )  # a cluster without its report cannot tell a set that was deleted from one that was lost
        if wanted is None and (BROKER in fleet.restored_at or orphaned or unreported):
            return  # it was lost, or orphaned: what runs of it runs on
        shares = {
            c: found["spec"]["replicas"]
            for c in members
            if (found := find(await fleet.objects(c, StatefulSet, fleet.namespace), f"{NAME}-{c}"))
        }
        given, has_left = sum(shares.values()), bool(fleet.membership_changed)
        if ready != given or (given != (wanted or 0) and not has_left):
            yield f"{wanted} replicas are wanted, shares are {shares}, {ready} are ready"


class BudgetKept(Law):
    """We take no more replicas than we may, judged at every event of a pod."""

    name = "budget-kept"
    sentence = (
        f"No ready replica is taken while as many as {BUDGET} of those that are wanted are not "
        f"ready, nor one of the living because others are away; one that is replaced may be the "
        f"{BUDGET} that the living lack. None is taken of a set that was orphaned. What ran for a "
        "set that was deleted is no replica of the next one of its name."
    )

    def __init__(self, fleet: Fleet, sets: StatefulSets) -> None:
        super().__init__(fleet)
        self._sets = sets
        self._judged_from: float | None = None
        """When people last took some away, if all others have been ready since."""
        self._seen: list[str] = []
        self._wanted_before: tuple[float, int] = (-REACTION, 0)
        """When the number of replicas last changed, and from which."""
        testbed = fleet.testbed
        if isinstance(testbed, EmbeddedTestbed):
            testbed.servers[BROKER].storage.subscribe(self._on_set, "statefulsets.apps")
            for cluster in fleet.names:
                storage = testbed.servers[cluster].storage
                storage.subscribe(partial(self._on_event, cluster), "pods")

    @property
    def _taken_at(self) -> float:
        """When people last took replicas away, or a cluster was restored."""
        return max(self._sets.edited, *self.fleet.restored_at.values(), 0)

    def _on_set(self, event: Change | Restored) -> None:
        if isinstance(event, Restored) or event.before is None:
            return
        before, after = (each["spec"]["replicas"] for each in (event.before, event.object))
        if event.object["metadata"]["name"] == NAME and before != after:
            self._wanted_before = (self.fleet.now, int(before))

    def _on_event(self, cluster: ClusterId, event: Change | Restored) -> None:
        if isinstance(event, Restored) or event.before is None:
            return
        gone = event.type == "DELETED" or not is_live(event.object)
        owners = {owner["uid"] for owner in event.before["metadata"].get("ownerReferences", ())}
        if _is_ready_replica(event.before, cluster) and gone and not owners & self._sets.deleted:
            self._judge(cluster, event.object["metadata"]["name"])

    def _judge(self, cluster: ClusterId, replica: str) -> None:
        """Compare what is left with what is wanted at this moment, or was until just now."""
        testbed = self.fleet.testbed
        assert isinstance(testbed, EmbeddedTestbed)
        submitted = testbed.servers[BROKER].storage.get(
            "statefulsets.apps", self.fleet.namespace, NAME
        )
        if self._judged_from != self._taken_at:
            return
        orphaned = self._sets.orphaned
        if submitted is None and orphaned is not None and self.fleet.now - orphaned > CALM:
            self._seen.append(f"{replica} is taken, whose set was orphaned")
        if submitted is None or not is_live(submitted):
            return
        wanted, (changed, before) = int(submitted["spec"]["replicas"]), self._wanted_before
        if self.fleet.now - changed < REACTION:
            wanted = min(wanted, before)
        part = testbed.servers[cluster].storage.get(
            "statefulsets.apps", self.fleet.namespace, f"{NAME}-{cluster}"
        )
        is_replaced = part is not None and int(replica.rsplit("-", 1)[1]) < part["spec"]["replicas"]
        ready = {
            c: sum(
                _is_ready_replica(pod, c) and pod["metadata"]["name"] != replica
                for pod in testbed.servers[c].storage.objects("pods", self.fleet.namespace)
            )
            for c in self.fleet.names
        }
        away = sum(n for c, n in ready.items() if self.fleet.mute_for(c) > SURELY_AWAY)
        left = sum(ready.values())
        least = wanted - BUDGET if is_replaced else wanted
        if left < wanted - BUDGET or (away and left - away < least):
            self._seen.append(f"{replica} is taken, of {wanted} wanted {ready} are left")

    async def observe(self) -> AsyncIterator[str]:
        wanted, ready = await _wanted(self.fleet), await _ready(self.fleet, self.fleet.names)
        lost = len(self._sets.lost)
        calm = self.fleet.now - self._taken_at > (CERTAIN if lost else CALM)
        if wanted is not None and ready >= wanted - lost and calm:
            self._judged_from = self._taken_at
        for seen in self._seen:
            yield seen
        self._seen.clear()
