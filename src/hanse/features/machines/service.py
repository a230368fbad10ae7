"""Plans a VM Service: the Service, and EndpointSlices of the machines whose tags name it."""

from collections.abc import Iterable, Iterator, Sequence

from hanse.features.machines.machine import (
    BY_SERVICE,
    SOURCES,
    Machine,
    Port,
    ServiceMachine,
    ServiceTags,
    parse_machine,
    parse_service_tags,
)
from hanse.features.machines.names import DOMAIN, FEDERATION_TAGS, VM_SERVICE
from hanse.features.machines.status import machines_status_plan, name_conflict_plan
from hanse.model.internal_addresses import (
    InternalAddress,
    encode_addresses,
    internal_addresses,
    internal_by_address,
)
from hanse.model.kinds.core import ObjectReference, Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    AddressType,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    address_family,
)
from hanse.model.kinds.federation import label_spellings
from hanse.model.naming import unique_name
from hanse.model.objects import ClusterId, Meta
from hanse.model.plan import Desired, Key, Plan
from hanse.model.ports import default_port_name, unused_port_name
from hanse.model.snapshot import Snapshot

MOST_ENDPOINTS = 100
_READY = EndpointConditions(ready=True)


def list_machines(service: str, namespace: str, snapshot: Snapshot) -> list[ServiceMachine]:
    """The machines of one VM Service, running or not, sorted by name and kind."""
    found: list[ServiceMachine] = []
    for kind in SOURCES:
        for source in snapshot.by(snapshot.local, BY_SERVICE[kind], f"{namespace}/{service}"):
            machine = parse_machine(source)
            found.append(ServiceMachine(machine, parse_service_tags(machine)))
    return sorted(found, key=lambda m: (m.machine.name, m.machine.kind))


def plan_service(key: Key, snapshot: Snapshot) -> Plan:
    """The plan of a VM Service: the Service, and EndpointSlices of its running machines.

    Also conditions of its machines, and of a foreign Service of that name. Without machines only
    the latter, so that the VM Service is deleted. Empty while our Service must be deleted to be
    created anew.
    """
    machines = list_machines(key.name, key.namespace, snapshot)
    current = snapshot.get(snapshot.local, Service, key.name, key.namespace)
    if not machines:
        return name_conflict_plan(current, "", snapshot)
    ports = union_ports(m.tags.ports for m in machines)
    if current is not None and _must_be_recreated(current, ports):
        return Plan()  # nothing desired: the Service is deleted, and created by the next plan
    running = [m for m in machines if m.machine.running]
    sources = frozenset({snapshot.local})
    desired = [Desired(_service(key, machines, ports), snapshot.local, sources=sources)]
    desired += [
        Desired(endpoint_slice, snapshot.local, step=1, sources=sources)
        for endpoint_slice in _slices(key, running, ports, snapshot.local)
    ]
    statuses = machines_status_plan(key, machines, snapshot)
    conflict = name_conflict_plan(current, machines[0].machine.name, snapshot)
    return Plan(
        tuple(desired),
        patches=(*statuses.patches, *conflict.patches),
        events=(*statuses.events, *conflict.events),
    )


def union_ports(port_lists: Iterable[Sequence[Port]]) -> tuple[Port, ...]:
    """The union of all ports by protocol and number, sorted by number, with unique names.

    Of equal numbers the protocols are in alphabetical order. A port keeps its first name, or gets
    one of protocol and number if that is empty or taken; a single port keeps its name, even an
    empty one.
    """
    ports: dict[tuple[str, int], Port] = {}
    for port_list in port_lists:
        for port in port_list:
            ports.setdefault((port.protocol, port.port), port)
    if len(ports) == 1:
        return tuple(ports.values())
    taken: set[str] = set()
    named: list[Port] = []
    for port in sorted(ports.values(), key=lambda p: (p.port, p.protocol)):
        plain = default_port_name(port.protocol, port.port)
        preferred = port.name if port.name and port.name not in taken else plain
        name = unused_port_name(preferred, taken)
        taken.add(name)
        named.append(Port(port.port, name, port.protocol))
    return tuple(named)


def _must_be_recreated(current: Service, ports: Sequence[Port]) -> bool:
    """Whether a VM Service is headless and there are ports, or the reverse; no update changes that.

    False for a Service without the annotation `VM_SERVICE`.
    """
    return VM_SERVICE in current.metadata.annotations and current.headless == bool(ports)


def _service(key: Key, machines: Sequence[ServiceMachine], ports: Sequence[Port]) -> Service:
    """The VM Service, without selector, and dual-stack if the cluster is.

    Without ports it is headless, so that its name resolves to the machines. The machines'
    federation tags are its annotations.
    """
    return Service(
        metadata=Meta(
            name=key.name,
            namespace=key.namespace,
            annotations={
                **_federation_annotations(m.machine for m in machines),
                VM_SERVICE: "true",
            },
        ),
        spec=ServiceSpec(
            cluster_ip="" if ports else "None",
            ip_family_policy="PreferDualStack",
            ports=tuple(ServicePort(port=p.port, name=p.name, protocol=p.protocol) for p in ports),
        ),
    )


def _federation_annotations(machines: Iterable[Machine]) -> dict[str, str]:
    """The machines' federation tags, in any spelling of the domain, as annotations of the Service.

    Where machines have different values of a tag, the first machine's is taken.
    """
    annotations: dict[str, str] = {}
    for machine in machines:
        for name in (s for mark in FEDERATION_TAGS for s in label_spellings(mark)):
            if name in machine.tags:
                annotations.setdefault(name, machine.tags[name])
    return annotations


def _slices(
    key: Key, machines: Sequence[ServiceMachine], ports: Sequence[Port], local: ClusterId
) -> Iterator[EndpointSlice]:
    """Slices of machines by address family and served ports, at most 100 ready endpoints in each.

    An endpoint has the address by which this cluster reaches the machine, one for each family of
    its addresses; an annotation lists the internal addresses by which other clusters do.
    """
    groups: dict[tuple[AddressType, tuple[Port, ...]], list[Endpoint]] = {}
    others: list[InternalAddress] = []
    for one in machines:
        served = _served_ports(one.tags, ports)
        internal = list(internal_addresses(one.machine.addresses, one.tags.internal_from))
        others += internal
        own = internal_by_address(local, internal)
        for preferred in one.machine.addresses:
            address = own.get(preferred.address, preferred.address)
            family = address_family(address)
            if family is not None:
                endpoint = _machine_endpoint(one.machine, address)
                groups.setdefault((family, served), []).append(endpoint)
    for (family, served), endpoints in sorted(groups.items()):
        some = () if served == tuple(ports) else (str([(p.protocol, p.port) for p in served]),)
        for start in range(0, len(endpoints), MOST_ENDPOINTS):
            chunk = tuple(endpoints[start : start + MOST_ENDPOINTS])
            used = {address for endpoint in chunk for address in endpoint.addresses}
            yield EndpointSlice(
                metadata=Meta(
                    name=unique_name(key.name, "vm", family, *some, str(start)),
                    namespace=key.namespace,
                    labels={KUBE_SERVICE: key.name, MANAGED_BY: DOMAIN},
                    annotations=encode_addresses(
                        o for o in others if used & {o.address, o.internal}
                    ),
                ),
                address_type=family,
                endpoints=chunk,
                ports=tuple(
                    EndpointPort(port=p.port, name=p.name, protocol=p.protocol) for p in served
                ),
            )


def _served_ports(tags: ServiceTags, ports: Sequence[Port]) -> tuple[Port, ...]:
    """The ports of the Service that a machine's tags name; all if the tags name none."""
    numbers = {(p.protocol, p.port) for p in tags.ports}
    return tuple(p for p in ports if not numbers or (p.protocol, p.port) in numbers)


def _machine_endpoint(machine: Machine, address: str) -> Endpoint:
    """A ready endpoint with the address, the machine's host name and a reference to its object."""
    return Endpoint(
        addresses=(address,),
        conditions=_READY,
        hostname=machine.hostname,
        target_ref=ObjectReference(
            api_version=machine.kind.api_version,
            kind=machine.kind.name,
            namespace=machine.namespace,
            name=machine.name,
        ),
    )
