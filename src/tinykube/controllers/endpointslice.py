"""The EndpointSlice controller: endpoints of the pods that a Service selects."""

from collections.abc import Iterable, Mapping

from tinykube.controllers.controller import (
    DONE,
    ENDPOINT_SLICES,
    NODES,
    PODS,
    SERVICES,
    Key,
    Lister,
    Result,
)
from tinykube.controllers.endpointslice_packing import (
    MANAGED_BY,
    MANAGER,
    SERVICE_NAME,
    EndpointGroup,
    plan_slices,
)
from tinykube.controllers.objects import (
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from tinykube.controllers.simulated_nodes import ZONE
from tinykube.resources import Object
from tinykube.storage import Change


class EndpointSliceController:
    """Enqueues a Service, for its own changes and those of its slices and selected pods."""

    name = "endpointslice"
    watches = frozenset((SERVICES, PODS, ENDPOINT_SLICES))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The Service itself, that of a slice, or those that select a pod.

        A slice counts if its label managed-by names this controller.
        """
        if change.store == SERVICES:
            yield key_of(SERVICES, change.object)
        elif change.store == ENDPOINT_SLICES:
            if labels_of(change.object).get(MANAGED_BY) == MANAGER:
                service = labels_of(change.object).get(SERVICE_NAME, "")
                yield Key(SERVICES, namespace_of(change.object), service)
        else:
            yield from service_keys(change, lister)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that update the managed slices of a Service.

        Nothing for a Service that is absent, terminating, or without selector.
        """
        service = lister.get(SERVICES, key.namespace, key.name)
        if service is None or is_deleting(service) or not selector_of(service):
            return DONE  # the garbage collector deletes the slices of a deleted Service
        slices = [
            one
            for one in lister.controlled(ENDPOINT_SLICES, service)
            if labels_of(one).get(MANAGED_BY) == MANAGER
        ]
        pods = selected_pods(service, lister)
        nodes = {name_of(node): node for node in lister.objects(NODES)}
        return Result(tuple(plan_slices(service, group_endpoints(service, pods, nodes), slices)))


def service_keys(change: Change, lister: Lister) -> Iterable[Key]:
    """The keys of Services that select a pod or did before; none if no endpoint field changed.

    The fields are those of `_endpoint_fields`.
    """
    pod, before = change.object, change.before
    if (
        change.type == "MODIFIED"
        and before is not None
        and _endpoint_fields(before) == _endpoint_fields(pod)
    ):
        return
    found = lister.services_selecting(namespace_of(pod), labels_of(pod))
    if before is not None and labels_of(before) != labels_of(pod):
        found += lister.services_selecting(namespace_of(pod), labels_of(before))
    for service in found:
        yield key_of(SERVICES, service)


def selected_pods(service: Object, lister: Lister) -> list[Object]:
    """The pods in the lister that are endpoints of a Service (`is_endpoint`), sorted by name.

    The Service must have a selector.
    """
    found = lister.pods_with_labels(namespace_of(service), selector_of(service))
    return [pod for pod in found if is_endpoint(pod)]


def selector_of(service: Object) -> Mapping[str, str]:
    """The selector of a Service; empty also if its type is ExternalName."""
    if spec_of(service).get("type") == "ExternalName":
        return {}
    return spec_of(service).get("selector") or {}


def is_endpoint(pod: Object) -> bool:
    """Whether a pod can be an endpoint: it has an address and has not finished.

    It need not be ready, and may be terminating.
    """
    return bool(status_of(pod).get("podIP")) and not is_finished(pod)


def _endpoint_fields(pod: Object) -> tuple[object, ...]:
    """What of a pod determines its endpoints: addresses, readiness, deletion, end, node, labels."""
    status = status_of(pod)
    return (
        status.get("podIPs"),
        is_ready(pod),
        is_deleting(pod),
        is_finished(pod),
        spec_of(pod).get("nodeName"),
        pod["metadata"].get("labels"),
    )


def group_endpoints(
    service: Object, pods: Iterable[Object], nodes: Mapping[str, Object]
) -> dict[EndpointGroup, list[Object]]:
    """Group the endpoints of pods by address family and resolved ports.

    A pod without an address of a family has none in it; a family without endpoints gets one empty
    group.
    """
    found: dict[EndpointGroup, list[Object]] = {}
    families = spec_of(service).get("ipFamilies") or ["IPv4"]
    for pod in pods:
        ports = tuple(_ports(service, pod))
        for family in families:
            address = _pod_address(pod, family)
            if address:
                node = nodes.get(spec_of(pod).get("nodeName", ""))
                endpoint = _endpoint(service, pod, address, node)
                found.setdefault(EndpointGroup(family, ports), []).append(endpoint)
    for family in families:
        if not any(group.family == family for group in found):
            found[EndpointGroup(family, ())] = []
    return found


def _pod_address(pod: Object, family: str) -> str:
    """The first address of a pod in the family; empty if it has none."""
    addresses = (str(one["ip"]) for one in status_of(pod).get("podIPs") or ())
    return next((one for one in addresses if (":" in one) == (family == "IPv6")), "")


def _endpoint(service: Object, pod: Object, address: str, node: Object | None) -> Object:
    """The endpoint of a pod: ready if the pod is Ready and not terminating.

    It is always ready with publishNotReadyAddresses; a hostname needs the Service as subdomain.
    """
    serving = is_ready(pod)
    terminating = is_deleting(pod)
    publish_not_ready = bool(spec_of(service).get("publishNotReadyAddresses"))
    endpoint: Object = {
        "addresses": [address],
        "conditions": {
            "ready": publish_not_ready or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": namespace_of(pod),
            "name": name_of(pod),
            "uid": uid_of(pod),
        },
    }
    hostname = spec_of(pod).get("hostname")
    if hostname and spec_of(pod).get("subdomain") == name_of(service):
        endpoint["hostname"] = hostname
    if spec_of(pod).get("nodeName"):
        endpoint["nodeName"] = spec_of(pod)["nodeName"]
    if node is not None and (zone := labels_of(node).get(ZONE)):
        endpoint["zone"] = zone
    return endpoint


def _ports(service: Object, pod: Object) -> Iterable[tuple[str, str, int, str]]:
    """The ports of a Service resolved for a pod, as (name, protocol, number, appProtocol).

    Port names that the pod does not have are omitted.
    """
    for port in spec_of(service).get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        number = target_port(port, protocol, pod)
        if number:
            yield (port.get("name") or "", protocol, number, port.get("appProtocol") or "")


def target_port(port: Object, protocol: str, pod: Object) -> int:
    """The port number of a Service port on a pod; zero if the pod has no port of that name.

    A name is looked up, with the protocol, in containers and sidecars. A number as targetPort, or
    without one the Service's own, is returned whether or not the pod declares it.
    """
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    for container in _long_running_containers(pod):
        for one in container.get("ports") or ():
            if one.get("name") == target and (one.get("protocol") or "TCP") == protocol:
                return int(one["containerPort"])
    return 0


def _long_running_containers(pod: Object) -> Iterable[Object]:
    """The containers of a pod and its sidecars (init containers that always restart)."""
    yield from spec_of(pod).get("containers") or ()
    for one in spec_of(pod).get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            yield one
