"""Endpoints: the older form of a Service's endpoints, one object for all of them."""

from collections.abc import Iterable

from tinykube.controllers.controller import (
    DONE,
    ENDPOINTS,
    PODS,
    SERVICES,
    Create,
    Delete,
    Key,
    Lister,
    Patch,
    Result,
    Write,
)
from tinykube.controllers.endpointslice import (
    selected_pods,
    selector_of,
    services_of,
    target_port,
)
from tinykube.controllers.objects import (
    is_deleting,
    is_ready,
    key_of,
    labels_of,
    merge_patch,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from tinykube.resources import Object
from tinykube.storage import Change

MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_MANAGER = "endpoint-controller"
_LIMIT = 1000


class EndpointsController:
    """Wakes with a Service, its Endpoints, and pods that it selects or selected."""

    name = "endpoints"
    watches = frozenset((SERVICES, PODS, ENDPOINTS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        if change.store == SERVICES:
            yield key_of(SERVICES, change.object)
        elif change.store == ENDPOINTS:
            if change.type != "ADDED":
                yield Key(SERVICES, namespace_of(change.object), name_of(change.object))
        else:
            yield from services_of(change, lister)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        service = lister.get(SERVICES, key.namespace, key.name)
        standing = lister.get(ENDPOINTS, key.namespace, key.name)
        if service is None:
            ours = standing is not None and MANAGED_BY in labels_of(standing)
            return Result((Delete(ENDPOINTS, standing),)) if standing and ours else DONE
        if is_deleting(service) or not selector_of(service):
            return DONE
        return Result(tuple(plan_endpoints(service, selected_pods(service, lister), standing)))


def plan_endpoints(service: Object, pods: Iterable[Object], standing: Object | None) -> list[Write]:
    """The write that makes a Service's Endpoints name exactly the given pods."""
    subsets = _subsets(service, pods)
    labels = {**labels_of(service), MANAGED_BY: _MANAGER}
    if spec_of(service).get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    if standing is None:
        metadata = {
            "name": name_of(service),
            "namespace": namespace_of(service),
            "labels": labels,
        }
        made: Object = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
        return [Create(ENDPOINTS, {**made, "subsets": subsets} if subsets else made)]
    before = {"labels": labels_of(standing)}
    body: Object = {}
    if changes := merge_patch(before, {"labels": labels}):
        body["metadata"] = changes
    if (standing.get("subsets") or []) != subsets:
        body["subsets"] = subsets or None
    return [Patch(ENDPOINTS, standing, body)] if body else []


def _subsets(service: Object, pods: Iterable[Object]) -> list[Object]:
    """Addresses by the ports that their pods serve, ready ones apart from the others."""
    groups: dict[tuple[tuple[tuple[str, object], ...], ...], dict[str, list[Object]]] = {}
    chosen = [pod for pod in pods if not is_deleting(pod) or _is_published(service)]
    for pod in chosen[:_LIMIT]:
        ports = tuple(tuple(port.items()) for port in _ports(service, pod))
        if not ports and spec_of(service).get("ports"):
            continue
        field = "addresses" if is_ready(pod) or _is_published(service) else "notReadyAddresses"
        groups.setdefault(ports, {}).setdefault(field, []).append(_address(service, pod))
    found: list[Object] = []
    for ports, addresses in sorted(groups.items(), key=lambda group: str(group[0])):
        subset: Object = {
            field: sorted(addresses[field], key=lambda one: str(one["ip"]))
            for field in ("addresses", "notReadyAddresses")
            if field in addresses
        }
        if ports:
            subset["ports"] = [dict(port) for port in ports]
        found.append(subset)
    return found


def _ports(service: Object, pod: Object) -> Iterable[Object]:
    for port in spec_of(service).get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        number = target_port(port, protocol, pod)
        if number:
            named = {"name": port["name"]} if port.get("name") else {}
            app = {"appProtocol": port["appProtocol"]} if port.get("appProtocol") else {}
            yield {**named, "port": number, "protocol": protocol, **app}


def _address(service: Object, pod: Object) -> Object:
    address: Object = {"ip": status_of(pod)["podIP"]}
    if spec_of(pod).get("hostname") and spec_of(pod).get("subdomain") == name_of(service):
        address["hostname"] = spec_of(pod)["hostname"]
    if spec_of(pod).get("nodeName"):
        address["nodeName"] = spec_of(pod)["nodeName"]
    target = {"kind": "Pod", "name": name_of(pod), "namespace": namespace_of(pod)}
    return {**address, "targetRef": {**target, "uid": uid_of(pod)}}


def _is_published(service: Object) -> bool:
    return bool(spec_of(service).get("publishNotReadyAddresses"))
