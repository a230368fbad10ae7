"""Distributing endpoints over EndpointSlices with few writes per change; pure."""

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
MAX_ENDPOINTS_PER_SLICE = 100
_MANAGED_LABELS = frozenset((SERVICE_NAME, MANAGED_BY, HEADLESS))


class EndpointGroup(Struct, frozen=True):
    """The properties shared by all endpoints of a slice; ports as (name, protocol, port, app)."""

    family: str
    ports: tuple[tuple[str, str, int, str], ...]


def plan_slices(
    service: Object, desired: Mapping[EndpointGroup, Sequence[Object]], slices: Iterable[Object]
) -> list[Write]:
    """The writes by which a Service's slices have exactly the desired endpoints.

    Slices of other groups are deleted or reused; terminating ones are ignored. Empty if nothing
    differs.
    """
    by_group: dict[EndpointGroup, list[Object]] = {group: [] for group in desired}
    writes: list[Write] = []
    for one in slices:
        existing = by_group.get(_group_of(one))
        if existing is not None and not is_deleting(one):
            existing.append(one)
        elif not is_deleting(one):
            writes.append(Delete(ENDPOINT_SLICES, one))
    for group, existing in by_group.items():
        writes += _pack_group(service, group, list(desired[group]), existing)
    return _reuse_slices(writes)


def _reuse_slices(writes: list[Write]) -> list[Write]:
    """Replace pairs of a deleted and a created slice of one family by one patch.

    The other deletions come last.
    """
    deletions = [one for one in writes if isinstance(one, Delete)]
    remaining: list[Write] = []
    for write in writes:
        if isinstance(write, Create):
            family = write.object["addressType"]
            reusable = next((one for one in deletions if one.target["addressType"] == family), None)
            if reusable is not None:
                deletions.remove(reusable)
                remaining.append(_reuse_patch(reusable.target, write.object))
                continue
        if not isinstance(write, Delete):
            remaining.append(write)
    return [*remaining, *deletions]


def _reuse_patch(one: Object, desired_slice: Object) -> Patch:
    """The patch that gives an existing slice the endpoints, ports and labels of another."""
    labels = {"labels": desired_slice["metadata"]["labels"]}
    changed = merge_patch({"labels": labels_of(one)}, labels)
    body = {"endpoints": desired_slice["endpoints"], "ports": desired_slice["ports"]}
    return Patch(ENDPOINT_SLICES, one, {**body, "metadata": changed} if changed else body)


def _pack_group(
    service: Object, group: EndpointGroup, endpoints: list[Object], slices: Sequence[Object]
) -> list[Write]:
    """The writes that keep endpoints in their slices and add new ones where there is capacity.

    A slice holds 100. Slices that change anyway are filled first, then the rest gets new slices; a
    group without endpoints and slices gets an empty slice.
    """
    new_endpoints = {_endpoint_identity(one): one for one in endpoints}
    contents: list[list[Object]] = []
    for one in slices:
        kept = (
            new_endpoints.pop(_endpoint_identity(old), None) for old in one.get("endpoints") or ()
        )
        contents.append([new for new in kept if new is not None])
    unplaced = list(new_endpoints.values())
    changed_first = sorted(
        range(len(slices)),
        key=lambda index: _equal_endpoints(slices[index].get("endpoints"), contents[index]),
    )
    for index in changed_first:
        free = MAX_ENDPOINTS_PER_SLICE - len(contents[index])
        contents[index] += unplaced[:free]
        del unplaced[:free]
    writes = _update_slices(service, group, slices, contents, keep_empty=not unplaced)
    while unplaced:
        writes.append(
            Create(ENDPOINT_SLICES, _new_slice(service, group, unplaced[:MAX_ENDPOINTS_PER_SLICE]))
        )
        del unplaced[:MAX_ENDPOINTS_PER_SLICE]
    if not endpoints and not slices:
        writes.append(Create(ENDPOINT_SLICES, _new_slice(service, group, [])))
    return writes


def _update_slices(
    service: Object,
    group: EndpointGroup,
    slices: Sequence[Object],
    contents: Sequence[list[Object]],
    *,
    keep_empty: bool,
) -> list[Write]:
    """The patches of slices whose endpoints or labels changed, and the deletions of empty ones.

    With `keep_empty`, one empty slice is kept if all are empty.
    """
    writes: list[Write] = []
    any_endpoints = any(contents)
    can_delete_empty = any_endpoints or not keep_empty
    for one, endpoints in zip(slices, contents, strict=True):
        if not endpoints and can_delete_empty:
            writes.append(Delete(ENDPOINT_SLICES, one))
            continue
        can_delete_empty = can_delete_empty or not endpoints
        desired = _new_slice(service, group, endpoints)
        labels = desired["metadata"]["labels"]
        body = merge_patch({"labels": labels_of(one)}, {"labels": labels})
        patch: Object = {"metadata": body} if body else {}
        if not _equal_endpoints(one.get("endpoints"), endpoints):
            patch["endpoints"] = endpoints
        if patch:
            writes.append(Patch(ENDPOINT_SLICES, one, patch))
    return writes


def _new_slice(service: Object, group: EndpointGroup, endpoints: list[Object]) -> Object:
    """A slice of these endpoints with generateName, controlled by the Service and with its labels.

    It also has the labels of the Service's name and the managing controller and, for a headless
    Service, the label headless.
    """
    labels = {k: v for k, v in labels_of(service).items() if k not in _MANAGED_LABELS}
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
    """A port as in an EndpointSlice; without appProtocol if that is empty."""
    port: Object = {"name": name, "protocol": protocol, "port": number}
    return {**port, "appProtocol": app} if app else port


def _group_of(one: Object) -> EndpointGroup:
    """The group of an existing slice by its addressType and ports; protocols are TCP by default."""
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


def _endpoint_identity(endpoint: Object) -> tuple[str, str]:
    """The uid of the endpoint's target and its addresses, by which endpoints are matched."""
    target = endpoint.get("targetRef") or {}
    return str(target.get("uid", "")), ",".join(endpoint.get("addresses") or ())


def _equal_endpoints(existing: Sequence[Object] | None, desired: Sequence[Object]) -> bool:
    """Whether the endpoints are equal, in the same order; None counts as no endpoints."""
    return list(existing or ()) == list(desired)
