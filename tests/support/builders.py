"""Builders of objects and snapshots, so that tests state only what they are about."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from msgspec.structs import replace

from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.facts import ClusterState, Fact, Facts, Phase, Role
from hanse.model.kinds.acceptance import ACCEPT
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, K, Kind, Meta, Object
from hanse.model.plan import Feature
from hanse.model.snapshot import Snapshot
from hanse.runtime.connection import wanted_scopes
from tinykube.virtual_time import EPOCH

_versions = count(1)


def meta(name: str, namespace: str = "default", **fields: Any) -> Meta:
    """Metadata of an object that is not written yet."""
    return Meta(name=name, namespace=namespace, **fields)


def configmap(name: str, namespace: str = "default", /, **data: str) -> ConfigMap:
    """A ConfigMap with some data."""
    return ConfigMap(metadata=meta(name, namespace), data=data)


def namespace(name: str) -> Namespace:
    """A namespace that takes workloads of others."""
    return Namespace(metadata=Meta(name=name, labels={ACCEPT: "true"}))


def labelled(obj: K, **labels: str) -> K:
    """The same object with labels; `_` in a name stands for `/`, `__` for `-`."""
    added = {_label(name): value for name, value in labels.items()}
    return replace(obj, metadata=replace(obj.metadata, labels={**obj.metadata.labels, **added}))


def annotated(obj: K, annotations: Mapping[str, str]) -> K:
    """The same object with annotations."""
    merged = {**obj.metadata.annotations, **annotations}
    return replace(obj, metadata=replace(obj.metadata, annotations=merged))


def stored(obj: K, *, age: float = 0, uid: str = "") -> K:
    """The object as an API server returns it: with uid, version and creation time."""
    version = next(_versions)
    return replace(
        obj,
        metadata=replace(
            obj.metadata,
            uid=uid or obj.metadata.uid or f"uid-{version}",
            resource_version=str(version),
            creation_timestamp=EPOCH - timedelta(seconds=age),
        ),
    )


def cluster(
    name: ClusterId, *roles: Role, phase: Phase = Phase.SYNCED, since: datetime = EPOCH
) -> ClusterState:
    """The fact that a cluster is connected."""
    listed = phase is not Phase.CONNECTING
    leaving = phase is Phase.LEAVING
    return ClusterState(name, frozenset(roles), phase, since, leaving=leaving, listed=listed)


def snapshot(
    feature: Feature,
    local: ClusterId,
    clusters: Iterable[ClusterState],
    objects: Mapping[ClusterId, Sequence[Object]],
    facts: Iterable[Fact] = (),
    now: datetime = EPOCH,
) -> Snapshot:
    """A snapshot as a feature reads it, with the feature's watches and indexes.

    A broker has its namespace, unless its objects name one.
    """
    known = Facts()
    stores: dict[tuple[ClusterId, Kind], list[Store[Any]]] = {}
    for state in clusters:
        known.put(state)
        here = objects.get(state.cluster, ())
        if Role.BROKER in state.roles and not any(o.name == BROKER_NAMESPACE for o in here):
            here = (*here, Namespace(metadata=Meta(name=BROKER_NAMESPACE)))
        for scope, indexes in wanted_scopes(feature.watches, state.roles).scopes.items():
            store: Store[Any] = Store(indexes)
            mine = tuple(o for o in here if issubclass(scope.kind, type(o)))
            if state.phase is not Phase.CONNECTING:
                store.apply_event(Listed(mine, str(next(_versions))))
            stores.setdefault((state.cluster, scope.kind.kind), []).append(store)
    for fact in facts:
        known.put(fact)
    return Snapshot(stores, known, now, local)


def _label(name: str) -> str:
    return name.replace("__", "-").replace("_", "/")
