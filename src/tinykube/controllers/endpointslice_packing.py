"""Spreading endpoints over slices so that few are written when few endpoints change."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tinykube.controllers.controller import (
    ENDPOINT_SLICES,
    Create,
    Delete,
    Patch,
    Write,
)
from tinykube.controllers.objects import (
    is_deleting,
    labels_of,
    merge_patch,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
)
from tinykube.resources import Object

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
PER_SLICE = 100
_OWN_LABELS = frozenset((SERVICE_NAME, MANAGED_BY, HEADLESS))


class EndpointGroup(Struct, frozen=True):
    """What all endpoints of one slice have in common; ports as (name, protocol, port, app)."""

    family: str
    ports: tuple[tuple[str, str, int, str], ...]


def plan_slices(
    service: Object, wanted: Mapping[EndpointGroup, Sequence[Object]], slices: Iterable[Object]
) -> list[Write]:
    """The fewest writes by which a Service's slices hold exactly the wanted endpoints."""
    by_group: dict[EndpointGroup, list[Object]] = {group: [] for group in wanted}
    writes: list[Write] = []
    for one in slices:
        standing = by_group.get(_group_of(one))
        if standing is not None and not is_deleting(one):
            standing.append(one)
        elif not is_deleting(one):
            writes.append(Delete(ENDPOINT_SLICES, one))
    for group, standing in by_group.items():
        writes += _fill(service, group, list(wanted[group]), standing)
    return _reused(writes)


def _reused(writes: list[Write]) -> list[Write]:
    """Instead of one slice deleted and another created, the one gets the other's contents."""
    left = [one for one in writes if isinstance(one, Delete)]
    reused: list[Write] = []
    for write in writes:
        if isinstance(write, Create):
            family = write.object["addressType"]
            spare = next((one for one in left if one.target["addressType"] == family), None)
            if spare is not None:
                left.remove(spare)
                reused.append(_turned(spare.target, write.object))
                continue
        if not isinstance(write, Delete):
            reused.append(write)
    return [*reused, *left]


def _turned(one: Object, into: Object) -> Patch:
    labels = {"labels": into["metadata"]["labels"]}
    changed = merge_patch({"labels": labels_of(one)}, labels)
    body = {"endpoints": into["endpoints"], "ports": into["ports"]}
    return Patch(ENDPOINT_SLICES, one, {**body, "metadata": changed} if changed else body)


def _fill(
    service: Object, group: EndpointGroup, endpoints: list[Object], slices: Sequence[Object]
) -> list[Write]:
    """Endpoints stay in the slice they are in; new ones go where there is room."""
    fresh = {_identity(one): one for one in endpoints}
    contents: list[list[Object]] = []
    for one in slices:
        kept = (fresh.pop(_identity(old), None) for old in one.get("endpoints") or ())
        contents.append([new for new in kept if new is not None])
    waiting = list(fresh.values())
    changed_first = sorted(
        range(len(slices)), key=lambda at: _is_same(slices[at].get("endpoints"), contents[at])
    )
    for at in changed_first:
        room = PER_SLICE - len(contents[at])
        contents[at] += waiting[:room]
        del waiting[:room]
    writes = _kept(service, group, slices, contents, keep_empty=not waiting)
    while waiting:
        writes.append(Create(ENDPOINT_SLICES, _slice(service, group, waiting[:PER_SLICE])))
        del waiting[:PER_SLICE]
    if not endpoints and not slices:
        writes.append(Create(ENDPOINT_SLICES, _slice(service, group, [])))
    return writes


def _kept(
    service: Object,
    group: EndpointGroup,
    slices: Sequence[Object],
    contents: Sequence[list[Object]],
    *,
    keep_empty: bool,
) -> list[Write]:
    """Rewrite slices whose contents changed; of empty ones at most a single one stays."""
    writes: list[Write] = []
    filled = any(contents)
    spared = filled or not keep_empty
    for one, endpoints in zip(slices, contents, strict=True):
        if not endpoints and spared:
            writes.append(Delete(ENDPOINT_SLICES, one))
            continue
        spared = spared or not endpoints
        wanted = _slice(service, group, endpoints)
        labels = wanted["metadata"]["labels"]
        body = merge_patch({"labels": labels_of(one)}, {"labels": labels})
        patch: Object = {"metadata": body} if body else {}
        if not _is_same(one.get("endpoints"), endpoints):
            patch["endpoints"] = endpoints
        if patch:
            writes.append(Patch(ENDPOINT_SLICES, one, patch))
    return writes


def _slice(service: Object, group: EndpointGroup, endpoints: list[Object]) -> Object:
    labels = {k: v for k, v in labels_of(service).items() if k not in _OWN_LABELS}
    labels |= {SERVICE_NAME: name_of(service), MANAGED_BY: MANAGER}
    if spec_of(service).get("clusterIP") == "None":
        labels[HEADLESS] = ""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name_of(service)}-",
            "namespace": namespace_of(service),
            "labels": labels,
            "ownerReferences": [owner_reference(service)],
        },
        "addressType": group.family,
        "endpoints": endpoints,
        "ports": [_port(*port) for port in group.ports],
    }


def _port(name: str, protocol: str, number: int, app: str) -> Object:
    port: Object = {"name": name, "protocol": protocol, "port": number}
    return {**port, "appProtocol": app} if app else port


def _group_of(one: Object) -> EndpointGroup:
    ports = tuple(
        (
            str(port.get("name") or ""),
            str(port.get("protocol") or "TCP"),
            int(port.get("port") or 0),
            str(port.get("appProtocol") or ""),
        )
        for port in one.get("ports") or ()
    )
    return EndpointGroup(str(one["addressType"]), ports)


def _identity(endpoint: Object) -> tuple[str, str]:
    target = endpoint.get("targetRef") or {}
    return str(target.get("uid", "")), ",".join(endpoint.get("addresses") or ())


def _is_same(standing: Sequence[Object] | None, wanted: Sequence[Object]) -> bool:
    return list(standing or ()) == list(wanted)
