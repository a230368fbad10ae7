"""A cluster full of tenants as an agent sees it: networks, namespaces, pods, addresses."""

import gc
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.processes import resident
from hanse.features.networks.feature import Networks
from hanse.features.networks.names import NETWORK, TENANT
from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.facts import ClusterState, Facts, Phase, Role
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.networks import Network, NetworkPort, Tenant
from hanse.model.objects import Kind, Object
from hanse.model.snapshot import Snapshot
from hanse.runtime.connection import wanted_scopes
from tinykube.virtual_time import EPOCH

HERE = "bench"
OF_EACH = 10
"""Networks of one tenant."""


def wire(networks: int, pods: int) -> Iterator[tuple[type[Object], bytes]]:
    """The objects of such a cluster, as its API server sends them."""
    for tenant in range(-(-networks // OF_EACH)):
        owner = f"t{tenant}"
        yield Tenant, _body(Tenant, owner)
        for space in ("web", "db", "default", "kube-system"):
            yield Namespace, _body(Namespace, f"{owner}-{space}", labels={TENANT: owner})
    for number in range(networks):
        owner = f"t{number // OF_EACH}"
        spec = {"type": "vpc", "tenant": owner, "vpcID": f"v{number}"}
        status = {"phase": "Ready", "dnsServiceIP": "10.96.0.53"}
        yield Network, _body(Network, _named(number), spec=spec, status=status)
    for number in range(pods):
        at = number % networks
        owner = f"t{at // OF_EACH}"
        yield Pod, _pod(number, f"{owner}-web", {TENANT: owner, NETWORK: f"n{at % OF_EACH}"})
        yield NetworkPort, _port(number, at, owner)


def _named(number: int) -> str:
    return f"t{number // OF_EACH}.n{number % OF_EACH}"


def _body(kind: type[Object], name: str, namespace: str = "", **fields: Any) -> bytes:
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{kind.kind.name}-{name}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    for part in ("labels", "annotations", "finalizers"):
        if part in fields:
            meta[part] = fields.pop(part)
    return msgspec.json.encode({"metadata": meta, **fields})


def _pod(number: int, namespace: str, labels: dict[str, str]) -> bytes:
    container = {
        "name": "main",
        "image": "registry.example/team/app:1.2.3",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [{"name": "A", "value": "b"}],
    }
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_ in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return _body(
        Pod,
        f"app-6bf4c8f5d9-{number:05}",
        namespace,
        labels={**labels, "app": "web", "pod-template-hash": "6bf4c8f5d9"},
        annotations={"arktos.futurewei.com/cni-args": f"IPV4={address};VPCID=v"},
        spec={"containers": [container], "nodeName": f"node-{number % 50}", "dnsPolicy": "None"},
        status={
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": conditions,
        },
    )


def _port(number: int, network: int, owner: str) -> bytes:
    spec = {
        "network": _named(network),
        "subnet": "default",
        "address": f"10.0.{number >> 8 & 255}.{number & 255}",
        "mac": "02:00:00:00:00:01",
        "pod": {
            "namespace": f"{owner}-web",
            "name": f"app-6bf4c8f5d9-{number:05}",
            "uid": f"uid-Pod-app-6bf4c8f5d9-{number:05}",
        },
    }
    return _body(NetworkPort, f"{_named(network)}-{number}", spec=spec)


def seen(feature: Networks, networks: int, pods: int) -> Snapshot:
    """The stores that an agent would have, filled from what its API server sends."""
    state = ClusterState(HERE, frozenset({Role.LOCAL}), Phase.SYNCED, EPOCH, listed=True)
    objects: dict[type[Object], list[Object]] = {}
    for kind, body in wire(networks, pods):
        objects.setdefault(kind, []).append(msgspec.json.decode(body, type=kind))
    facts = Facts()
    facts.put(state)
    stores: dict[tuple[str, Kind], list[Store[Any]]] = {}
    for scope, indexes in wanted_scopes(feature.watches, state.roles).scopes.items():
        store: Store[Any] = Store(indexes)
        mine = tuple(objects.get(scope.kind, ())) if scope.kind is not Service else ()
        store.apply_event(Listed(mine, "9"))
        stores.setdefault((HERE, scope.kind.kind), []).append(store)
    return Snapshot(stores, facts, EPOCH, HERE)


def weighed(networks: int, pods: int) -> float:
    """MiB of a process that holds such a cluster and has planned every network once."""
    from hanse.model.plan import Key

    feature = Networks()
    whole = seen(feature, networks, pods)
    for network in whole.all(HERE, Network):
        feature.plan(Key("network", network.metadata.name), whole)
    for space in whole.all(HERE, Namespace):
        feature.plan(Key("isolation", space.metadata.name), whole)
    gc.collect()
    return resident()
