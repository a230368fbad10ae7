"""Random schedules of users' actions, faults and time over exported services, and invariants.

A schedule is a function of its seed: `python -m tests.features.services.schedules SEED [COUNT]`
replays.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any

import msgspec

from hanse.features.services.feature import Services
from hanse.features.services.merge import MergedImport, merge_exports
from hanse.features.services.names import DOMAIN, SERVICE_NAME, SOURCE_CLUSTER
from hanse.features.services.records import ExportRecord, build_record
from hanse.kube.errors import KubeError
from hanse.kube.transport import Request
from hanse.model.conditions import find_condition
from hanse.model.crds import crd_of
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec, EndpointSource, Profile
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import BROKER_NAMESPACE, unique_name
from hanse.model.objects import K, Meta
from tests.support.builders import namespace
from tests.support.faults import LinkFaults
from tests.support.world import BROKER, World
from tinykube.virtual_time import run

SHOP = "shop"
NAMES = ("web", "db")
FLAKY_LINK = LinkFaults(delay=timedelta(milliseconds=30), refused=0.15, lost=0.1, breaks=0.1)
PORTS = (("http", 80), ("tls", 443), ("web", 80), ("http", 8080))
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Action = Callable[[], Coroutine[Any, Any, None]]


class InvariantViolation(AssertionError):
    """An invariant does not hold; the message says which, and how to replay the schedule."""


@cache
def _definitions() -> tuple[bytes, ...]:
    return tuple(msgspec.json.encode(crd_of(k)) for k in (ServiceExport, ServiceImport, ClusterSet))


class Schedule:
    """One random schedule over clusters that export services to each other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.world = World(("lubeck", "hamburg", "bergen"), lambda: (Services(),), seed=seed)
        self.profile: Profile = self.random.choice(("lighthouse", "kep-1645"))
        self.endpoints: EndpointSource | None = None
        self.made: dict[tuple[str, type[Any], str], bool] = {}
        """The objects that users created and did not delete: (cluster, kind, name)."""
        self.log: list[str] = []

    async def play(self) -> None:
        """Set up, run random actions, heal, and check the invariants."""
        world = self.world
        await self._set_up()
        for cluster in world.names:
            world.start_agent(cluster)
        try:
            for _ in range(self.random.randint(5, 16)):
                await self._random_action()
            await self._heal_and_settle()
            await self._check_all()
            await self._check_no_writes()
        finally:
            await world.stop()

    async def _set_up(self) -> None:
        for cluster in (*self.world.names, BROKER):
            client = self.world.client(cluster)
            for definition in _definitions():
                await client.send(Request("POST", CRDS, body=definition))
            await client.create(namespace(BROKER_NAMESPACE if cluster == BROKER else SHOP))
        rules = ClusterSet(metadata=Meta(name="hanse"), spec=ClusterSetSpec(profile=self.profile))
        await self.world.client(BROKER).create(rules)

    async def _random_action(self) -> None:
        actions: tuple[tuple[Action, int], ...] = (
            (self._export, 6),
            (self._recreate_service, 6),
            (self._unexport, 2),
            (self._delete_service, 1),
            (self._scale, 3),
            (self._edit_import, 2),
            (self._change_profile, 1),
            (self._change_endpoints, 1),
            (self._cut_link, 2),
            (self._heal_links, 1),
            (self._degrade_link, 2),
            (self._kill, 2),
            (self._crash_at_a_request, 2),
            (self._compact_history, 1),
        )
        action = self.random.choices([d for d, _ in actions], [w for _, w in actions])[0]
        await action()
        await asyncio.sleep(self.random.choice((0, 0.01, 0.1, 1, 10, 40)))

    def _log(self, text: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time():8.2f}  {text}")

    def _cluster(self) -> str:
        return self.random.choice(self.world.names)

    # -- users

    async def _create(self, cluster: str, obj: Any) -> None:
        await self.world.client(cluster).create(obj)
        self.made[cluster, type(obj), obj.metadata.name] = True

    async def _delete_if_made(self, cluster: str, kind: type[Any], name: str) -> None:
        if self.made.pop((cluster, kind, name), False):
            await self.world.client(cluster).delete(kind, name, SHOP)

    async def _export(self) -> None:
        """A user exports a service, or changes its exported labels."""
        cluster, name = self._cluster(), self.random.choice(NAMES)
        labels = self.random.choice(({}, {}, {"tier": "gold"}))
        if (cluster, ServiceExport, name) in self.made:
            change = {"spec": {"exportedLabels": labels or None}}
            await self.world.client(cluster).patch(ServiceExport, name, SHOP, change)
        else:
            await self._create(cluster, ServiceExport(metadata=Meta(name=name, namespace=SHOP)))
        self._log(f"{cluster} exports {name} {labels}")

    async def _recreate_service(self) -> None:
        """A user creates a Service, or recreates it with other ports or another type."""
        cluster, name = self._cluster(), self.random.choice(NAMES)
        await self._delete_if_made(cluster, Service, name)
        headless = self.random.random() < 0.3
        chosen = dict(self.random.sample(PORTS, self.random.randint(1, 2)))
        ports = {number: n for n, number in chosen.items()}  # neither a name nor a number twice
        spec = ServiceSpec(
            cluster_ip="None" if headless else "",
            ports=tuple(ServicePort(port=p, name=n) for p, n in sorted(ports.items())),
            selector={"app": name},
        )
        await self._create(cluster, Service(metadata=Meta(name=name, namespace=SHOP), spec=spec))
        self._log(f"{cluster} serves {name} at {ports}{' headless' * headless}")

    async def _scale(self) -> None:
        """The endpoints of a service change."""
        cluster, name = self._cluster(), self.random.choice(NAMES)
        await self._delete_if_made(cluster, EndpointSlice, f"{name}-pods")
        pods, ready = self.random.randint(0, 3), self.random.random() < 0.7
        endpoints = tuple(
            Endpoint(addresses=(f"10.9.0.{n + 1}",), conditions=EndpointConditions(ready=ready))
            for n in range(pods)
        )
        endpoint_slice = EndpointSlice(
            metadata=Meta(name=f"{name}-pods", namespace=SHOP, labels={KUBE_SERVICE: name}),
            address_type="IPv4",
            endpoints=endpoints,
            ports=(EndpointPort(port=8080, name="http"),),
        )
        await self._create(cluster, endpoint_slice)
        self._log(f"{cluster} has {pods} pods of {name}{' ready' * ready}")

    async def _unexport(self) -> None:
        cluster, name = self._cluster(), self.random.choice(NAMES)
        await self._delete_if_made(cluster, ServiceExport, name)
        self._log(f"{cluster} does not export {name}")

    async def _delete_service(self) -> None:
        cluster, name = self._cluster(), self.random.choice(NAMES)
        await self._delete_if_made(cluster, Service, name)
        self._log(f"{cluster} does not serve {name}")

    async def _edit_import(self) -> None:
        """A user edits or deletes a ServiceImport."""
        cluster, name = self._cluster(), self.random.choice(NAMES)
        client = self.world.client(cluster)
        try:
            if self.random.random() < 0.5:
                change = {"spec": {"sessionAffinity": "ClientIP", "ports": []}}
                await client.patch(ServiceImport, name, SHOP, change)
            else:
                await client.delete(ServiceImport, name, SHOP)
        except KubeError:
            return
        self._log(f"{cluster}: a user edits the import {name}")

    async def _change_profile(self) -> None:
        self.profile = "kep-1645" if self.profile == "lighthouse" else "lighthouse"
        self.endpoints = None
        await self._patch_rules()

    async def _change_endpoints(self) -> None:
        self.endpoints = "serviceIPs" if self.endpoints is None else None
        await self._patch_rules()

    async def _patch_rules(self) -> None:
        change = {"spec": {"profile": self.profile, "endpoints": self.endpoints}}
        await self.world.client(BROKER).patch(ClusterSet, "hanse", "", change)
        self._log(f"the profile is {self.profile}, endpoints are {self.endpoints}")

    # -- faults

    async def _cut_link(self) -> None:
        source = self._cluster()
        target = self.random.choice((source, BROKER))
        self.world.network.cut(source, target)
        self._log(f"{source} is cut off from {target}")

    async def _heal_links(self) -> None:
        self.world.network.heal_all()
        self._log("all links heal")

    async def _degrade_link(self) -> None:
        source = self._cluster()
        target = self.random.choice((source, BROKER))
        self.world.network.link(source, target).faults = FLAKY_LINK
        self._log(f"a flaky link between {source} and {target}")

    async def _kill(self) -> None:
        cluster = self._cluster()
        if cluster in self.world.agents:
            await self.world.kill_agent(cluster)
            self._log(f"the agent of {cluster} is killed")
        else:
            self.world.start_agent(cluster)
            self._log(f"the agent of {cluster} starts")

    async def _crash_at_a_request(self) -> None:
        """An agent crashes while it waits for a response, and is started again."""
        crash = self.world.network.crash_at(self.random.randint(1, 20))
        done, _ = await asyncio.wait({crash}, timeout=30)
        self.world.network.cancel_crash()
        if done and crash.result() in self.world.agents:
            await self.world.kill_agent(crash.result())
            self.world.start_agent(crash.result())
            self._log(f"the agent of {crash.result()} crashed at a request")

    async def _compact_history(self) -> None:
        target = self.random.choice((*self.world.names, BROKER))
        self.world.clusters[target].storage.compact()
        for link in self.world.network.links_to(target):
            self.world.network.break_watches(link.source, target)
        self._log(f"{target} restarts and forgets its history")

    async def _heal_and_settle(self) -> None:
        self.world.network.heal_all()
        for cluster in self.world.names:
            if cluster not in self.world.agents:
                self.world.start_agent(cluster)
        await self.world.settle(timedelta(minutes=6))

    # -- invariants

    def _require(self, holds: bool, invariant: str) -> None:
        if not holds:
            log = "\n".join(self.log)
            raise InvariantViolation(f"{invariant}\nseed {self.seed}, {self.profile}:\n{log}")

    async def _objects(self, cluster: str, kind: type[K]) -> dict[str, K]:
        namespace_ = BROKER_NAMESPACE if cluster == BROKER else SHOP
        listed = await self.world.client(cluster).list(kind, namespace=namespace_)
        return {o.metadata.name: o for o in listed.objects}

    async def _check_all(self) -> None:
        """Every cluster has exactly the merge of all exports, and nothing else."""
        for cluster, kind, name in self.made:
            found = await self._objects(cluster, kind)
            self._require(name in found, f"{cluster} lost the {kind.__name__} {name}")
        for name in NAMES:
            records = [r for c in self.world.names if (r := await self._record(c, name))]
            merged = merge_exports(records, self.profile)
            for cluster in self.world.names:
                await self._check_import(cluster, name, merged)
                await self._check_slices(cluster, name, records, merged)
                await self._check_conditions(cluster, name, merged)
            aggregate = (await self._objects(BROKER, ServiceImport)).get(unique_name(name, SHOP))
            self._check_spec(f"the aggregate of {name}", aggregate, merged)
        left = await self._objects(BROKER, EndpointSlice)
        exporting = {(c, n) for c, kind, n in self.made if kind is ServiceExport}
        for endpoint_slice in left.values():
            labels = endpoint_slice.metadata.labels
            source = labels[SOURCE_CLUSTER], labels[SERVICE_NAME]
            self._require(source in exporting, f"the broker still has {source}")

    async def _record(self, cluster: str, name: str) -> ExportRecord | None:
        export = (await self._objects(cluster, ServiceExport)).get(name)
        service = (await self._objects(cluster, Service)).get(name)
        return build_record(export, service, cluster) if export and service else None

    async def _check_import(self, cluster: str, name: str, merged: MergedImport | None) -> None:
        found = (await self._objects(cluster, ServiceImport)).get(name)
        self._check_spec(f"the import {name} in {cluster}", found, merged)
        derived = unique_name("derived", name)
        service = (await self._objects(cluster, Service)).get(derived)
        needed = self.profile == "kep-1645" and merged and merged.type == "ClusterSetIP"
        self._require(bool(service) == bool(needed), f"{derived} in {cluster}: {service}")
        if found is not None:
            ips = service.spec.cluster_ips if service else ()
            self._require(found.spec.ips == ips, f"{name} in {cluster} has {found.spec.ips}")

    def _check_spec(
        self, subject: str, found: ServiceImport | None, merged: MergedImport | None
    ) -> None:
        if merged is None or found is None:
            self._require(found is None and merged is None, f"{subject} is {found}")
            return
        reported = (
            found.spec.type,
            found.spec.ports,
            found.spec.session_affinity,
            {n: v for n, v in found.metadata.labels.items() if n == "tier"},
            {c.cluster for c in found.status.clusters},
        )
        terms = (merged.type, merged.ports, merged.session_affinity, merged.labels)
        desired = (*terms, set(merged.clusters))
        self._require(reported == desired, f"{subject} is {reported}, not {desired}")

    async def _check_slices(
        self, cluster: str, name: str, records: list[ExportRecord], merged: MergedImport | None
    ) -> None:
        found: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
        for endpoint_slice in (await self._objects(cluster, EndpointSlice)).values():
            labels = endpoint_slice.metadata.labels
            if (
                labels.get(MANAGED_BY) == DOMAIN
                and labels["multicluster.kubernetes.io/service-name"] == name
            ):
                reported = found.setdefault(labels[SOURCE_CLUSTER], [])
                reported.extend((e.addresses, e.ready) for e in endpoint_slice.endpoints or ())
        desired = {
            r.cluster: await self._endpoints(r, merged, cluster)
            for r in records
            if merged and r.cluster in merged.clusters
        }
        self._require(found == desired, f"{cluster} has {found} of {name}, not {desired}")

    async def _endpoints(
        self, record: ExportRecord, merged: MergedImport, importer: str
    ) -> list[tuple[tuple[str, ...], bool]]:
        pods = (await self._objects(record.cluster, EndpointSlice)).get(f"{record.name}-pods")
        known = (pods.endpoints or ()) if pods else ()
        own_share = self.profile == "kep-1645" and record.cluster == importer
        source = ClusterSetSpec(profile=self.profile, endpoints=self.endpoints).endpoint_source
        if "Headless" in (record.type, merged.type) or own_share or source == "pods":
            return [(e.addresses, e.ready) for e in known]
        service = (await self._objects(record.cluster, Service))[record.name]
        return [(service.spec.cluster_ips, any(e.ready for e in known))] if known else []

    async def _check_conditions(self, cluster: str, name: str, merged: MergedImport | None) -> None:
        export = (await self._objects(cluster, ServiceExport)).get(name)
        if export is None:
            return
        reported = {c.type: c.status for c in export.status.conditions}
        if merged is None or cluster not in merged.conflicts:
            self._require(reported.get("Valid") == "False", f"{cluster} {name} reports {reported}")
            return
        ready = "False" if cluster in merged.refused else "True"
        self._require(reported.get("Valid") == "True", f"{cluster} {name} reports {reported}")
        self._require(reported.get("Ready") == ready, f"{cluster} {name} reports {reported}")
        conflict = find_condition(export.status.conditions, "Conflict")
        reasons = ",".join(c.reason for c in merged.conflicts[cluster]) or "NoConflicts"
        reason = conflict.reason if conflict else ""
        self._require(reason == reasons, f"{cluster} {name} reports {reason}, not {reasons}")

    async def _check_no_writes(self) -> None:
        """A settled fleet writes nothing, and neither does an agent that starts over it."""
        with self.world.network.counting_writes() as writes:
            await self.world.settle(timedelta(minutes=4))
            for cluster in self.world.names:
                await self.world.kill_agent(cluster)
                self.world.start_agent(cluster)
            await self.world.settle(timedelta(minutes=2))
        made = [(w.source, w.request.method, w.request.path, w.request.body) for w in writes]
        self._require(not made, f"a settled fleet wrote {made}")


def play(seed: int) -> None:
    """Play one schedule to its end."""

    async def schedule() -> None:
        await Schedule(seed).play()

    run(schedule())


def main() -> None:
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for seed in range(first, first + count):
        play(seed)
    print(f"{count} schedules from seed {first}: every invariant holds")  # noqa: T201


if __name__ == "__main__":
    main()
