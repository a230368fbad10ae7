"""Translates a cluster's member Services into ServiceExports of Antrea Multi-cluster.

Antrea merges exports by namespace and name: where a member Service has another name, a Service of
the federated name is added, with the same selector where that is possible, else with the endpoints.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from hanse.features.federated.groups import is_federated_group
from hanse.features.federated.join_requests import FederatedName, Joinable, join_request
from hanse.model.kinds.antrea import ClusterGroup, Group
from hanse.model.kinds.core import Service, ServicePort
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.federation import SYSTEM, NativeService, NetworkInterface
from hanse.model.naming import unique_name
from hanse.model.objects import Wire, to_wire
from hanse.model.ports import default_port_name

EXPORTS = "multicluster.x-k8s.io/v1alpha1"
"""The version that Antrea Multi-cluster reads."""


class MigratedObjects(Struct, frozen=True):
    """The objects of one cluster that take part in federated Services."""

    services: tuple[Service, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    native: tuple[NativeService, ...] = ()
    interfaces: tuple[NetworkInterface, ...] = ()
    groups: tuple[ClusterGroup | Group, ...] = ()


class AntreaManifests(Struct, frozen=True):
    """The objects to apply, and notes for the user about them."""

    objects: tuple[Wire, ...]
    notes: tuple[str, ...] = ()


def antrea_manifests(held: MigratedObjects, namespace: str) -> AntreaManifests:
    """What moves one cluster's federated Services to Antrea Multi-cluster, with notes.

    ServiceExports; a Service of the federated name unless that is the only member, with copied
    slices where no selector reaches the members; and all our groups, for the policies that name
    them. Global federated Services move to `namespace`; the notes tell which endpoints and groups
    are copies of the present.
    """
    objects: list[Wire] = []
    notes: list[str] = []
    for federated, members in sorted(_members(held, namespace).items()):
        objects += _stand_in_objects(federated, members, held, notes)
        objects.append(
            {
                "apiVersion": EXPORTS,
                "kind": "ServiceExport",
                "metadata": {"name": federated.name, "namespace": federated.namespace},
            }
        )
    groups = [g for g in held.groups if is_federated_group(g)]
    if groups:
        notes.append(
            "groups: policies name them, and they go with the last agent; their addresses are as "
            "they were when this was written. Apply them once more after `hanse uninstall`"
        )
    return AntreaManifests((*objects, *map(_group, groups)), tuple(notes))


def _group(group: ClusterGroup | Group) -> Wire:
    """The manifest of a group, with only its name and its address blocks: no owner claim."""
    meta = group.metadata
    place = {"namespace": meta.namespace} if meta.namespace else {}
    return {
        "apiVersion": type(group).kind.api_version,
        "kind": type(group).kind.name,
        "metadata": {"name": meta.name, **place},
        "spec": {"ipBlocks": [{"cidr": block.cidr} for block in group.spec.ip_blocks]},
    }


def _members(held: MigratedObjects, namespace: str) -> dict[FederatedName, list[Joinable]]:
    """The Services and native services by the federated Service they join, without ExternalNames.

    Global federated Services are listed in `namespace`.
    """
    found: dict[FederatedName, list[Joinable]] = {}
    for obj in (*held.services, *held.native):
        if not isinstance(obj, Service | NativeService):
            continue
        if isinstance(obj, Service) and obj.spec.type == "ExternalName":
            continue
        for federated in join_request(obj).joins:
            place = FederatedName(
                namespace if federated.namespace == SYSTEM else federated.namespace, federated.name
            )
            found.setdefault(place, []).append(obj)
    return found


def _stand_in_objects(
    federated: FederatedName, members: Sequence[Joinable], held: MigratedObjects, notes: list[str]
) -> Iterator[Wire]:
    """A Service of the federated name, with the selector or else copied slices of the members.

    With the selector only if the one member is a Service of that namespace that has one. Nothing if
    the only member is that Service itself. Appends to `notes` where slices are copied.
    """
    first = members[0]
    alone = len(members) == 1 and isinstance(first, Service)
    here = first.metadata.namespace == federated.namespace
    if alone and here and first.metadata.name == federated.name:
        return
    if alone and here and isinstance(first, Service) and first.spec.selector:
        yield _service(federated, first.spec.ports, first.spec.selector)
        return
    notes.append(
        f"Service {federated}: its endpoints are as they were when this was written, since no "
        f"selector reaches {', '.join(_format_member(m) for m in members)}"
    )
    yield _service(federated, _union_ports(members), {})
    for member in members:
        yield from _endpoints(federated, member, held)


def _format_member(member: Joinable) -> str:
    """`KIND NAMESPACE/NAME` of a Service or native service, for the notes above the manifests."""
    return f"{type(member).kind.name} {member.metadata.namespace}/{member.metadata.name}"


def _service(
    federated: FederatedName, ports: Iterable[ServicePort], selector: dict[str, str]
) -> Wire:
    """A Service of the federated name; unnamed ports get a name, an empty selector is omitted."""
    spec: Wire = {
        "ports": [
            {
                "name": port.name or default_port_name(port.protocol, port.port),
                "port": port.port,
                "protocol": port.protocol,
                **({"targetPort": port.target_port} if port.target_port else {}),
            }
            for port in ports
        ]
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": federated.name, "namespace": federated.namespace},
        "spec": {**spec, "selector": selector} if selector else spec,
    }


def _union_ports(members: Iterable[Joinable]) -> Iterator[ServicePort]:
    """The ports of all members, each protocol and number once, with the name of the first.

    Without targetPort.
    """
    known: set[tuple[str, int]] = set()
    for member in members:
        for port in member.spec.ports:
            if (port.protocol, port.port) not in known:
                known.add((port.protocol, port.port))
                yield ServicePort(port=port.port, name=port.name, protocol=port.protocol)


def _endpoints(federated: FederatedName, member: Joinable, held: MigratedObjects) -> Iterator[Wire]:
    """The slices of a member as slices of the federated Service, with addresses and readiness only.

    Of a native service, one slice of its interface; none if the interface or the slices are
    missing.
    """
    meta = member.metadata
    if isinstance(member, NativeService):
        for interface in held.interfaces:
            ref = (interface.metadata.namespace, interface.metadata.name)
            if ref == (meta.namespace, member.spec.network_interface):
                yield _endpoint_slice(
                    federated, f"{meta.namespace}/{meta.name}", _interface_slice(interface, member)
                )
        return
    for endpoint_slice in held.slices:
        labels = endpoint_slice.metadata.labels
        if (endpoint_slice.metadata.namespace, labels.get(KUBE_SERVICE)) == (
            meta.namespace,
            meta.name,
        ):
            wire = to_wire(endpoint_slice)
            wire["endpoints"] = [
                {"addresses": list(e.addresses), "conditions": {"ready": e.ready}}
                for e in endpoint_slice.endpoints or ()
            ]
            yield _endpoint_slice(
                federated, f"{meta.namespace}/{endpoint_slice.metadata.name}", wire
            )


def _interface_slice(interface: NetworkInterface, native: NativeService) -> Wire:
    """The ready address of an interface, and ports of a native service, as fields of a slice."""
    return {
        "addressType": "IPv6" if ":" in interface.address else "IPv4",
        "endpoints": [{"addresses": [interface.address], "conditions": {"ready": True}}],
        "ports": [
            {
                "name": p.name or default_port_name(p.protocol, p.port),
                "port": p.port,
                "protocol": p.protocol,
            }
            for p in native.spec.ports
        ],
    }


def _endpoint_slice(federated: FederatedName, slot: str, wire: Wire) -> Wire:
    """An EndpointSlice of the federated Service with fields of `wire`; `slot` makes it unique."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": unique_name(federated.name, slot, "moved"),
            "namespace": federated.namespace,
            "labels": {KUBE_SERVICE: federated.name},
        },
        "addressType": wire["addressType"],
        "endpoints": wire["endpoints"],
        "ports": wire.get("ports", []),
    }
