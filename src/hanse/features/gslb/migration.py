"""Objects of AMKO's earlier API groups, translated to the one that is served."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from hanse.model.kinds.gslb import (
    GROUP,
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.objects import Object, Wire

OLD_GROUPS = ("amko.k8s.io", "avilb.k8s.io")
_KINDS: dict[str, type[Object]] = {
    kind.kind.name: kind for kind in (AMKOCluster, GlobalDeploymentPolicy, GSLBConfig, GSLBHostRule)
}


class TranslatedObjects(Struct, frozen=True):
    """Objects to apply, and notes on what has to be decided by hand."""

    objects: tuple[Wire, ...]
    notes: tuple[str, ...]


def translate_amko(documents: Iterable[Any]) -> TranslatedObjects:
    """Translate objects of earlier groups and versions; others stay as they are."""
    objects: list[Wire] = []
    notes: list[str] = []
    for document in documents:
        if isinstance(document, Mapping):
            wire = dict(document)
            kind = _KINDS.get(str(wire.get("kind", "")))
            group = str(wire.get("apiVersion", "")).partition("/")[0]
            if kind is not None and group in (*OLD_GROUPS, GROUP):
                wire["apiVersion"] = kind.kind.api_version
                notes += _translate_fields(wire)
            objects.append(wire)
    return TranslatedObjects(tuple(objects), tuple(notes))


def _translate_fields(wire: Wire) -> Iterator[str]:
    """Change the fields that were different earlier, in place; what cannot be is noted."""
    name = f"{wire['kind']} {(wire.get('metadata') or {}).get('name', '')}"
    meta = wire["metadata"] = dict(wire.get("metadata") or {})
    if meta.get("namespace") != NAMESPACE:
        yield f"{name}: its namespace is {NAMESPACE} now"
        meta["namespace"] = NAMESPACE
    spec = wire.get("spec")
    if wire["kind"] != GlobalDeploymentPolicy.kind.name or not isinstance(spec, dict):
        return
    spec["matchClusters"] = [_match_cluster(one) for one in spec.get("matchClusters") or ()]
    if isinstance(spec.get("matchRules"), list):
        del spec["matchRules"]
        yield (
            f"{name}: spec.matchRules was a list of conditions; write it as appSelector and "
            "namespaceSelector, without which nothing is selected"
        )


def _match_cluster(one: Any) -> Any:
    """A matched cluster, which was a bare name or had another field earlier."""
    if isinstance(one, str):
        return {"cluster": one}
    if isinstance(one, dict) and "clusterContext" in one and "cluster" not in one:
        return {"cluster": one["clusterContext"]}
    return one
