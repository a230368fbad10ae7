"""The Endpoints controller: one Endpoints object with all endpoints of a Service."""

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
    service_keys,
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
_MAX_ADDRESSES = 1000


class EndpointsController:
    """Enqueues a Service, for its own changes and those of its Endpoints and selected pods."""

    name = "endpoints"
    watches = frozenset((SERVICES, PODS, ENDPOINTS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The Service itself, that of modified or deleted Endpoints, or those that select a pod."""
        if change.store == SERVICES:
            yield key_of(SERVICES, change.object)
        elif change.store == ENDPOINTS:
            if change.type != "ADDED":
                yield Key(SERVICES, namespace_of(change.object), name_of(change.object))
        else:
            yield from service_keys(change, lister)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The write that updates a Service's Endpoints, or deletes managed ones without a Service.

        Nothing for a Service that is terminating or has no selector. Managed ones have the label
        endpoints.kubernetes.io/managed-by.
        """
        service = lister.get(SERVICES, key.namespace, key.name)
        existing = lister.get(ENDPOINTS, key.namespace, key.name)
        if service is None:
            managed = existing is not None and MANAGED_BY in labels_of(existing)
            return Result((Delete(ENDPOINTS, existing),)) if existing and managed else DONE
        if is_deleting(service) or not selector_of(service):
            return DONE
        return Result(tuple(plan_endpoints(service, selected_pods(service, lister), existing)))


def plan_endpoints(service: Object, pods: Iterable[Object], existing: Object | None) -> list[Write]:
    """The write that creates or patches the Endpoints of a Service; empty if nothing differs.

    Their labels become the Service's and the controller's own.
    """
    subsets = _subsets(service, pods)
    labels = {**labels_of(service), MANAGED_BY: _MANAGER}
    if spec_of(service).get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    if existing is None:
        metadata = {
            "name": name_of(service),
            "namespace": namespace_of(service),
            "labels": labels,
        }
        created: Object = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
        return [Create(ENDPOINTS, {**created, "subsets": subsets} if subsets else created)]
    before = {"labels": labels_of(existing)}
    body: Object = {}
    if changes := merge_patch(before, {"labels": labels}):
        body["metadata"] = changes
    if (existing.get("subsets") or []) != subsets:
        body["subsets"] = subsets or None
    return [Patch(ENDPOINTS, existing, body)] if body else []


def _subsets(service: Object, pods: Iterable[Object]) -> list[Object]:
    """The subsets: addresses grouped by ports, ready and not ready separately; at most 1000 pods.

    Pods that have none of the Service's ports are omitted, and terminating ones. With
    publishNotReadyAddresses all pods count as ready, terminating ones, too.
    """
    groups: dict[tuple[tuple[tuple[str, object], ...], ...], dict[str, list[Object]]] = {}
    candidates = [pod for pod in pods if not is_deleting(pod) or _publishes_not_ready(service)]
    for pod in candidates[:_MAX_ADDRESSES]:
        ports = tuple(tuple(port.items()) for port in _endpoint_ports(service, pod))
        if not ports and spec_of(service).get("ports"):
            continue
        field = (
            "addresses" if is_ready(pod) or _publishes_not_ready(service) else "notReadyAddresses"
        )
        groups.setdefault(ports, {}).setdefault(field, []).append(_endpoint_address(service, pod))
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


def _endpoint_ports(service: Object, pod: Object) -> Iterable[Object]:
    """The Service's ports resolved for a pod; names that the pod does not have are omitted."""
    for port in spec_of(service).get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        number = target_port(port, protocol, pod)
        if number:
            name_field = {"name": port["name"]} if port.get("name") else {}
            app_protocol_field = (
                {"appProtocol": port["appProtocol"]} if port.get("appProtocol") else {}
            )
            yield {**name_field, "port": number, "protocol": protocol, **app_protocol_field}


def _endpoint_address(service: Object, pod: Object) -> Object:
    """The address of a pod; with a hostname only if its subdomain is the Service's name."""
    address: Object = {"ip": status_of(pod)["podIP"]}
    if spec_of(pod).get("hostname") and spec_of(pod).get("subdomain") == name_of(service):
        address["hostname"] = spec_of(pod)["hostname"]
    if spec_of(pod).get("nodeName"):
        address["nodeName"] = spec_of(pod)["nodeName"]
    target = {"kind": "Pod", "name": name_of(pod), "namespace": namespace_of(pod)}
    return {**address, "targetRef": {**target, "uid": uid_of(pod)}}


def _publishes_not_ready(service: Object) -> bool:
    return bool(spec_of(service).get("publishNotReadyAddresses"))
