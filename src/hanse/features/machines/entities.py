"""ExternalEntities: machines as Antrea's policies select them, by their tags."""

import re
from collections.abc import Iterator, Mapping

from hanse.features.machines.machine import Machine, Source, parse_machine, parse_service_tags
from hanse.features.machines.names import MACHINE, SERVICE_LABEL
from hanse.features.machines.service import list_machines, union
from hanse.model.kinds.antrea import (
    EntityEndpoint,
    EntityPort,
    ExternalEntity,
    ExternalEntitySpec,
)
from hanse.model.naming import unique
from hanse.model.objects import Meta
from hanse.model.plan import Desired, Plan
from hanse.model.snapshot import Snapshot

EXTERNAL_NODE = "hanse"
"""Who keeps the entities: Antrea leaves those of other nodes to them."""

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def plan_machine(source: Source | None, snapshot: Snapshot) -> Plan:
    """The entity of one machine, whether it is a Service or not."""
    if source is None:
        return Plan()
    machine = parse_machine(source)
    offer = parse_service_tags(machine)
    labels = {**valid_labels(machine.tags), MACHINE: _value(machine.name)}
    if offer.service:
        labels[SERVICE_LABEL] = offer.service
    entity = ExternalEntity(
        metadata=Meta(
            name=unique("vm", machine.name, str(machine.kind)),
            namespace=machine.namespace,
            labels=labels,
        ),
        spec=ExternalEntitySpec(
            endpoints=tuple(_endpoints(machine)),
            ports=tuple(
                EntityPort(protocol=p.protocol, port=p.port, name=p.name) for p in offer.ports
            ),
            external_node=EXTERNAL_NODE,
        ),
    )
    return Plan((Desired(entity, snapshot.local, sources=frozenset({snapshot.local})),))


def service_entity(name: str, namespace: str, snapshot: Snapshot) -> ExternalEntity | None:
    """The entity of a VM Service: all its running machines at once."""
    several = list_machines(name, namespace, snapshot)
    endpoints = tuple(e for m, _ in several if m.running for e in _endpoints(m))
    if not endpoints:
        return None
    return ExternalEntity(
        metadata=Meta(
            name=unique("vm-service", name),
            namespace=namespace,
            labels={SERVICE_LABEL: name},
        ),
        spec=ExternalEntitySpec(
            endpoints=endpoints,
            ports=tuple(
                EntityPort(protocol=p.protocol, port=p.port, name=p.name)
                for p in union(offer.ports for _, offer in several)
            ),
            external_node=EXTERNAL_NODE,
        ),
    )


def valid_labels(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that can be labels."""
    return {
        name: value
        for name, value in tags.items()
        if _is_name(name) and (not value or _LABEL.fullmatch(value))
    }


def _endpoints(machine: Machine) -> Iterator[EntityEndpoint]:
    for address in machine.addresses:
        yield EntityEndpoint(ip=address, name=machine.hostname)


def _value(name: str) -> str:
    return name if len(name) <= 63 else unique(name)


def _is_name(name: str) -> bool:
    prefix, slash, rest = name.rpartition("/")
    if prefix.endswith("hanse.dev") or not _LABEL.fullmatch(rest):
        return False
    return not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None)
