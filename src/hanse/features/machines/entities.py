"""ExternalEntities: machines that Antrea policies select by labels, which are their tags."""

from collections.abc import Iterator, Mapping

from hanse.features.machines.machine import Machine, Source, parse_machine, parse_service_tags
from hanse.features.machines.names import MACHINE_LABEL, SERVICE_LABEL
from hanse.features.machines.service import list_machines, union_ports
from hanse.model.kinds.antrea import (
    NO_NODE,
    EntityEndpoint,
    EntityPort,
    ExternalEntity,
    ExternalEntitySpec,
)
from hanse.model.label_syntax import is_label_key, is_label_value
from hanse.model.naming import unique_name
from hanse.model.objects import Meta
from hanse.model.plan import Desired, Plan
from hanse.model.snapshot import Snapshot


def plan_machine(source: Source | None, snapshot: Snapshot) -> Plan:
    """The plan with the ExternalEntity of one machine, running or not; empty for None.

    It has all addresses of the machine and the ports of its tags. Its labels are the valid tags,
    the machine's name, and the Service that the tags name, if any.
    """
    if source is None:
        return Plan()
    machine = parse_machine(source)
    tags = parse_service_tags(machine)
    labels = {**valid_labels(machine.tags), MACHINE_LABEL: _label_value(machine.name)}
    if tags.service:
        labels[SERVICE_LABEL] = tags.service
    entity = ExternalEntity(
        metadata=Meta(
            name=unique_name("vm", machine.name, str(machine.kind)),
            namespace=machine.namespace,
            labels=labels,
        ),
        spec=ExternalEntitySpec(
            endpoints=tuple(_entity_endpoints(machine)),
            ports=tuple(
                EntityPort(protocol=p.protocol, port=p.port, name=p.name) for p in tags.ports
            ),
            external_node=NO_NODE,
        ),
    )
    return Plan((Desired(entity, snapshot.local, sources=frozenset({snapshot.local})),))


def service_entity(name: str, namespace: str, snapshot: Snapshot) -> ExternalEntity | None:
    """The ExternalEntity of a VM Service, with all addresses of its running machines.

    None if these have no address. Its ports are the union of those of all machines, running or not.
    """
    machines = list_machines(name, namespace, snapshot)
    running = [m.machine for m in machines if m.machine.running]
    endpoints = tuple(e for machine in running for e in _entity_endpoints(machine))
    if not endpoints:
        return None
    return ExternalEntity(
        metadata=Meta(
            name=unique_name("vm-service", name),
            namespace=namespace,
            labels={SERVICE_LABEL: name},
        ),
        spec=ExternalEntitySpec(
            endpoints=endpoints,
            ports=tuple(
                EntityPort(protocol=p.protocol, port=p.port, name=p.name)
                for p in union_ports(m.tags.ports for m in machines)
            ),
            external_node=NO_NODE,
        ),
    )


def valid_labels(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that are valid as labels and not reserved; others are left out.

    Reserved are keys with the prefix `hanse.dev/` or of a subdomain of it.
    """
    return {
        name: value
        for name, value in tags.items()
        if is_label_key(name) and is_label_value(value) and not _is_reserved(name)
    }


def _entity_endpoints(machine: Machine) -> Iterator[EntityEndpoint]:
    """An endpoint with the machine's host name for each of its addresses."""
    for address in machine.every_address:
        yield EntityEndpoint(ip=address, name=machine.hostname)


def _label_value(name: str) -> str:
    """A machine's name as a label value; a name over 63 characters is shortened with a hash."""
    return name if len(name) <= 63 else unique_name(name)


def _is_reserved(name: str) -> bool:
    """Whether a label's prefix is `hanse.dev` or a subdomain of it."""
    return f".{name.rpartition('/')[0]}".endswith(".hanse.dev")
