"""Actions of users on federated StatefulSets, and checks of what they observe."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from hanse.app import BROKER
from hanse.kube.client import Client
from hanse.kube.errors import ApiError, Conflict, NotFound
from hanse.kube.transport import Request
from hanse.model.facts import HolderState, LeaseLiveness
from hanse.model.kinds.acceptance import (
    DEFAULT_POLICY,
    AcceptancePolicy,
    AcceptancePolicySpec,
    WorkloadAcceptance,
)
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.core import (
    Event,
    Namespace,
    Node,
    Pod,
    Service,
    ServicePort,
    ServiceSpec,
)
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterSet,
    ClusterSetSpec,
    FederatedStatefulSet,
)
from hanse.model.kinds.networking import LabelSelector
from hanse.model.kinds.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.kinds.storage import PersistentVolumeClaim
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, K, Meta, Wire
from hanse.model.ownership import OWNER
from tests.support.broker import clear_broker
from tests.support.federation import install_crds
from tests.support.scenario import Check, Scenario

KINDS: tuple[type[Any], ...] = (
    AcceptancePolicy,
    ClusterSet,
    FederatedStatefulSet,
    StatefulSetPart,
    StatefulSetShares,
)

UNSCHEDULABLE: Wire = {"nodeSelector": {"disk": "of-no-node"}}
"""Fields of pods that no node takes."""


def spec_of(replicas: int = 11, image: str = "etcd:3.6", **fields: Any) -> StatefulSetSpec:
    """The example of the design document, with today's fields."""
    labels = {"app": "etcd"}
    container = {
        "name": "etcd",
        "image": image,
        "ports": [{"containerPort": 80, "name": "store"}],
        "volumeMounts": [{"name": "etcd-store", "mountPath": "/usr/share/etcd"}],
    }
    claim = {
        "metadata": {"name": "etcd-store"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return StatefulSetSpec(
        service_name="etcd",
        replicas=replicas,
        selector={"matchLabels": labels},
        template={
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        },
        volume_claim_templates=(claim,),
        **{"pod_management_policy": "Parallel", **fields},
    )


def template(image: str, **pod_spec: Any) -> Wire:
    """The change of the example's pod template to another image, and more fields of its pods."""
    made = dict(spec_of(image=image).template)
    return {**made, "spec": {"nodeSelector": None, **made["spec"], **pod_spec}}


def headless(name: str, namespace: str) -> Service:
    return Service(
        metadata=Meta(name=name, namespace=namespace, labels={"app": "etcd"}),
        spec=ServiceSpec(
            cluster_ip="None",
            selector={"app": "etcd"},
            ports=(ServicePort(port=80, name="store"),),
        ),
    )


class StatefulSetsScenario:
    """Sets in the scenario's namespace, submitted to the broker or to a host cluster."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def admin(self, cluster: ClusterId) -> Client:
        return self.scenario.admin(cluster)

    async def open(self, lease: int = 3) -> None:
        """Install the CRDs in every cluster, and create the ClusterSet."""
        for cluster in (*self.scenario.names, BROKER):
            await install_crds(self.scenario, cluster, *KINDS)
        await self.scenario.make_namespace(BROKER, BROKER_NAMESPACE, keep=True)
        await self.scenario.make_namespace(BROKER, self.scenario.namespace)
        await clear_broker(self.admin(BROKER))
        self.scenario.closing.push_async_callback(self.close)
        spec = ClusterSetSpec(lease_duration_seconds=lease)
        await self.scenario.eventually(
            lambda: self.admin(BROKER).create(
                ClusterSet(metadata=Meta(name=self.scenario.namespace), spec=spec)
            )
        )

        for cluster in self.scenario.names:
            await self.set_policy(cluster, origins=(BROKER, *self.scenario.names))

    async def set_policy(self, cluster: ClusterId, **fields: Any) -> None:
        """Create or replace the AcceptancePolicy of a cluster."""
        client = self.admin(cluster)
        with suppress(NotFound):
            await client.delete(AcceptancePolicy, DEFAULT_POLICY, "")
        spec = AcceptancePolicySpec(workloads=WorkloadAcceptance(**fields))
        policy = AcceptancePolicy(metadata=Meta(name=DEFAULT_POLICY), spec=spec)
        await self.scenario.eventually(lambda: client.create(policy))

    async def add_record(self, cluster: ClusterId, labels: Mapping[str, str] | None = None) -> None:
        """Create the record of a cluster on the broker, as `hanse join` does."""
        await install_crds(self.scenario, BROKER, ClusterMember)
        self.scenario.closing.push_async_callback(clear_broker, self.admin(BROKER))
        uid = (await self.admin(cluster).read(Namespace, "kube-system")).metadata.uid
        member = ClusterMember(
            metadata=Meta(name=cluster, namespace=BROKER_NAMESPACE, labels=dict(labels or {})),
            spec=ClusterMemberSpec(cluster_id=cluster, uid=uid),
        )
        await self.scenario.eventually(lambda: self.admin(BROKER).create(member))

    def all_have_joined(self) -> Check[None]:
        """That every cluster has its heartbeat Lease on the broker, and all agents know it."""

        async def check() -> None:
            for cluster in self.scenario.names:
                await self.all_count(cluster)()

        return check

    def all_count(self, cluster: ClusterId, *others: HolderState) -> Check[None]:
        """That every agent takes a cluster for ready, and places replicas in it; or for others."""
        lease = (BROKER, BROKER_NAMESPACE, cluster)

        async def check() -> None:
            for name, running in self.scenario.agents.items():
                known = running.agent.reconciler.informers.facts.get(LeaseLiveness, lease)
                assert known is not None, name
                assert known.state in (HolderState.READY, *others), (name, known)

        return check

    async def close(self) -> None:
        """Leave nothing behind for the next scenario."""
        for cluster in self.scenario.names:
            with suppress(NotFound):
                await self.admin(cluster).delete(AcceptancePolicy, DEFAULT_POLICY, "")
        await clear_broker(self.admin(BROKER))

    # -- doing

    async def launch(
        self, replicas: int = 11, *, balanced: bool = False, marks: dict[str, str] | None = None
    ) -> StatefulSet:
        """Submit the design's example to the federation."""
        notes = dict(marks or {})
        if balanced:
            notes["federation.kubernetes.io/statefulset-lb-needed"] = "true"
        await self.admin(BROKER).create(headless("etcd", self.scenario.namespace))
        meta = Meta(name="store", namespace=self.scenario.namespace, annotations=notes)
        return await self.admin(BROKER).create(StatefulSet(metadata=meta, spec=spec_of(replicas)))

    async def edit(self, change: Wire, where: ClusterId = BROKER, name: str = "store") -> None:
        """Patch a StatefulSet as a user."""
        await self.admin(where).patch(StatefulSet, name, self.scenario.namespace, change)

    async def scale(self, replicas: int) -> None:
        """As `kubectl scale` does."""
        path = f"/apis/apps/v1/namespaces/{self.scenario.namespace}/statefulsets/store/scale"
        body = msgspec.json.encode({"spec": {"replicas": replicas}})
        content = "application/merge-patch+json"
        await self.admin(BROKER).send(Request("PATCH", path, body=body, content_type=content))

    async def annotate(self, **marks: str | None) -> None:
        """Annotate the set; names are those of the feature, with underscores."""
        notes = {
            f"statefulsets.hanse.dev/{name.replace('_', '-')}": value
            for name, value in marks.items()
        }
        await self.edit({"metadata": {"annotations": notes}})

    async def delete_orphaning(self) -> None:
        """As `kubectl delete --cascade=orphan` does."""
        path = f"/apis/apps/v1/namespaces/{self.scenario.namespace}/statefulsets/store"
        body = msgspec.json.encode({"propagationPolicy": "Orphan"})
        await self.admin(BROKER).send(Request("DELETE", path, body=body))

    async def protect(self) -> None:
        """Submit a PodDisruptionBudget that lets one replica of all clusters be evicted."""
        selector = LabelSelector(match_labels={"app": "etcd"})
        spec = PodDisruptionBudgetSpec(max_unavailable=1, selector=selector)
        meta = Meta(name="etcd", namespace=self.scenario.namespace)
        await self.admin(BROKER).create(PodDisruptionBudget(metadata=meta, spec=spec))

    async def cordon(self, cluster: ClusterId, node: str, *, cordoned: bool = True) -> None:
        """As `kubectl cordon` and `uncordon` do."""
        change = {"spec": {"unschedulable": cordoned or None}}
        await self.admin(cluster).patch(Node, node, "", change)

    async def evict(self, cluster: ClusterId, uid: str = "") -> bool:
        """Ask for the eviction of a cluster's first replica, as `kubectl drain` does.

        Whether it goes: budgets may deny it, and with a uid it may be another pod already.
        """
        name, namespace = f"store-{cluster}-0", self.scenario.namespace
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        meta = {"name": name, "namespace": namespace}
        options = {"preconditions": {"uid": uid}} if uid else {}
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": meta,
            "deleteOptions": options,
        }
        try:
            await self.admin(cluster).send(
                Request("POST", path, body=msgspec.json.encode(eviction))
            )
        except (NotFound, Conflict):
            return False
        except ApiError as error:
            if "disruption budget" not in str(error):
                raise
            return False
        return True

    # -- seeing

    async def found(self, cluster: ClusterId, kind: type[K], name: str) -> K | None:
        try:
            return await self.admin(cluster).read(kind, name, self.scenario.namespace)
        except NotFound:
            return None

    async def door(self) -> StatefulSet:
        return await self.admin(BROKER).read(StatefulSet, "store", self.scenario.namespace)

    def shares(self, **expected: int) -> Check[None]:
        """That each cluster runs so many replicas, all ready; others have no StatefulSet."""

        async def check() -> None:
            for cluster in self.scenario.names:
                own = await self.found(cluster, StatefulSet, f"store-{cluster}")
                wanted = expected.get(cluster, 0)
                if not wanted:
                    assert own is None, f"{cluster} has {own}"
                    continue
                assert own is not None, f"{cluster} has none"
                assert own.spec.replicas == wanted, (cluster, own.spec.replicas)
                assert own.status.ready_replicas == wanted, (cluster, own.status)

        return check

    def is_ready(self, ready: int, wanted: int | None = None) -> Check[StatefulSet]:
        """That the status on the broker says so."""

        async def check() -> StatefulSet:
            door = await self.door()
            assert door.status.observed_generation == door.metadata.generation
            assert door.spec.replicas == (ready if wanted is None else wanted)
            assert door.status.ready_replicas == ready, door.status
            return door

        return check

    def has_conditions(self, **reasons: str) -> Check[dict[str, str]]:
        """That the conditions on the broker have these reasons; gives their messages."""

        async def check() -> dict[str, str]:
            door = await self.door()
            observed = {c.type: c for c in door.status.conditions}
            assert {n: observed[n].reason for n in reasons if n in observed} == reasons, observed
            return {c.type: c.message for c in observed.values()}

        return check

    def has_said(self, *reasons: str, where: ClusterId = BROKER) -> Check[None]:
        """That Events about the set had these reasons."""

        async def check() -> None:
            about = [
                e for e in await self.listed(where, Event) if e.involved_object.name == "store"
            ]
            assert {e.reason for e in about} >= set(reasons), [(e.reason, e.message) for e in about]

        return check

    def runs(self, cluster: ClusterId, image: str) -> Check[None]:
        """That a cluster's StatefulSet has this image."""

        async def check() -> None:
            own = await self.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert own.spec.template["spec"]["containers"][0]["image"] == image

        return check

    def runs_selecting(self, cluster: ClusterId, nodes: dict[str, str]) -> Check[None]:
        """That a cluster's StatefulSet has this node selector."""

        async def check() -> None:
            own = await self.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert own.spec.template["spec"].get("nodeSelector", {}) == nodes

        return check

    async def listed(self, cluster: ClusterId, kind: type[K]) -> list[K]:
        return list(
            (await self.admin(cluster).list(kind, namespace=self.scenario.namespace)).objects
        )

    async def pods(self, cluster: ClusterId) -> dict[str, Pod]:
        return {p.metadata.name: p for p in await self.listed(cluster, Pod)}

    async def claims(self, cluster: ClusterId) -> set[str]:
        return {c.metadata.name for c in await self.listed(cluster, PersistentVolumeClaim)}

    async def balancers(self, cluster: ClusterId) -> dict[str, tuple[str, ...]]:
        """Load-balancer Services of ours and their addresses."""
        services = await self.listed(cluster, Service)
        return {
            s.metadata.name: tuple(i.ip for i in s.status.load_balancer.ingress)
            for s in services
            if s.spec.type == "LoadBalancer" and OWNER in s.metadata.labels
        }

    def is_gone(self) -> Check[None]:
        """That no cluster and no door has anything of the set but claims."""

        async def check() -> None:
            for cluster in (*self.scenario.names, BROKER):
                for kind in (StatefulSet, Service):
                    left = [o.metadata.name for o in await self.listed(cluster, kind)]
                    assert left in ([], ["etcd"]), (cluster, left)
            assert await self.listed(BROKER, StatefulSetShares) == []
            parts = (await self.admin(BROKER).list(StatefulSetPart)).objects
            ours = [p.spec for p in parts if p.spec.namespace == self.scenario.namespace]
            assert [p for p in ours if not p.ended] == [], "who still runs a part of it"

        return check
