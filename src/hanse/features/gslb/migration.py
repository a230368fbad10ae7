"""Objects of AMKO's earlier API groups and versions, translated to what is served."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from hanse.model.crds import crd_of
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
_KEPT_METADATA = ("name", "namespace", "labels", "annotations")
"""The rest of an object's metadata is of the server that it was read from."""


class TranslatedObjects(Struct, frozen=True):
    """Objects to apply, and notes on what has to be decided by hand."""

    objects: tuple[Wire, ...]
    notes: tuple[str, ...]


def translate_amko(documents: Iterable[Any]) -> TranslatedObjects:
    """Translate AMKO objects of earlier or present API groups, also in Lists, with notes.

    Their namespace is set, fields are renamed, unknown ones and the status left out. Other objects
    stay as they are, Lists are replaced by their items, and documents that are no mappings are
    dropped.
    """
    objects: list[Wire] = []
    notes: list[str] = []
    for document in _unpacked(documents):
        wire = dict(document)
        kind = _KINDS.get(str(wire.get("kind", "")))
        group = str(wire.get("apiVersion", "")).partition("/")[0]
        if kind is not None and group in (*OLD_GROUPS, GROUP):
            wire, found = _translate(wire, kind)
            notes += found
        objects.append(wire)
    return TranslatedObjects(tuple(objects), tuple(notes))


def _unpacked(documents: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """The objects among documents; a List is replaced by its items, non-mappings are skipped."""
    for document in documents:
        if isinstance(document, Mapping):
            items = document.get("items")
            if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
                yield from _unpacked(items)
            else:
                yield document


def _translate(wire: Wire, kind: type[Object]) -> tuple[Wire, list[str]]:
    """An object of AMKO as it can be applied, and notes on what was changed or left out.

    It is moved to the GSLB namespace and keeps of its metadata only name, labels and annotations,
    and no status.
    """
    given: Wire = dict(wire.get("metadata") or {})
    name = f"{kind.kind.name} {given.get('name', '')}"
    notes: list[str] = []
    if given.get("namespace") != NAMESPACE:
        notes.append(f"{name}: its namespace is {NAMESPACE} now")
    metadata = {key: given[key] for key in _KEPT_METADATA if given.get(key)}
    spec = wire.get("spec")
    spec = dict(spec) if isinstance(spec, Mapping) else {}
    notes += [f"{name}: {note}" for note in _rename_fields(spec, kind)]
    schema = crd_of(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    left_out: list[str] = []
    pruned = _prune(spec, schema, "spec", left_out)
    notes += [f"{name}: {path} is no field any more, and is left out" for path in left_out]
    translated: Wire = {
        "apiVersion": kind.kind.api_version,
        "kind": kind.kind.name,
        "metadata": {**metadata, "namespace": NAMESPACE},
        "spec": pruned,
    }
    return translated, notes


def _rename_fields(spec: Wire, kind: type[Object]) -> Iterator[str]:
    """Change fields of `spec` that were different earlier, in place; yields notes on lost ones.

    These are controller_ip of gslbLeader, and of a policy the entries of matchClusters and
    matchRules as a list, which alone is lost.
    """
    leader = spec.get("gslbLeader")
    if isinstance(leader, Mapping) and "controller_ip" in leader:
        renamed = {key: value for key, value in leader.items() if key != "controller_ip"}
        spec["gslbLeader"] = {"controllerIP": leader["controller_ip"], **renamed}
    if kind is not GlobalDeploymentPolicy:
        return
    spec["matchClusters"] = [_match_cluster(one) for one in spec.get("matchClusters") or ()]
    if isinstance(spec.get("matchRules"), list):
        del spec["matchRules"]
        yield (
            "spec.matchRules was a list of conditions; write it as appSelector and "
            "namespaceSelector, without which nothing is selected"
        )


def _match_cluster(one: Any) -> Any:
    """An entry of `spec.matchClusters` as `{cluster: NAME}`, from a bare name or `clusterContext`.

    Anything else is returned as it is.
    """
    if isinstance(one, str):
        return {"cluster": one}
    if isinstance(one, dict) and "clusterContext" in one and "cluster" not in one:
        return {"cluster": one["clusterContext"]}
    return one


def _prune(value: Any, schema: Wire, path: str, left_out: list[str]) -> Any:
    """A value without nulls and unknown fields; the paths of the latter are added to `left_out`."""
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_prune(v, items, f"{path}[{n}]", left_out) for n, v in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    known, free = schema.get("properties", {}), schema.get("additionalProperties")
    kept: Wire = {}
    for key, inner in value.items():
        if inner is None:
            continue  # as templates write what is not set
        if key in known or free:
            kept[key] = _prune(inner, known.get(key, free or {}), f"{path}.{key}", left_out)
        else:
            left_out.append(f"{path}.{key}")
    return kept
