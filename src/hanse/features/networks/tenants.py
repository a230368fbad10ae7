"""What a tenant is given: a default network, and namespaces in place of the cluster's own."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from hanse.features.networks.lookups import find_network, tenant_networks
from hanse.features.networks.names import (
    FINALIZER,
    TENANT,
    NetworkName,
    namespace_name,
    parse_network_name,
)
from hanse.features.networks.options import NetworksOptions
from hanse.model.conditions import condition, merge_conditions
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.networks import Network, Tenant
from hanse.model.objects import ClusterObjectRef, Meta, Wire, object_ref
from hanse.model.plan import Desired, EventRequest, Key, Patch, Plan
from hanse.model.snapshot import Snapshot

SYSTEM_NAMESPACES = ("default", "kube-system")


def plan_tenant(key: Key, snapshot: Snapshot, options: NetworksOptions) -> Plan:
    """A tenant's namespaces, which outlive it, and its default network, which does not."""
    tenant = snapshot.get(snapshot.local, Tenant, key.name)
    if tenant is None or tenant.metadata.deletion_timestamp is not None:
        return Plan()
    trouble = ""
    network: Network | None = None
    try:
        network = default_network(options.template, key.name)
    except InvalidTemplate as error:
        trouble = str(error)
    spaces = _wanted(tenant, network, snapshot)
    trouble = trouble or "; ".join(_foreign(spaces, key.name, snapshot))
    desired = list(_namespaces(spaces, key.name, snapshot))
    if network is not None:
        desired.append(Desired(_as_it_stands(network, snapshot), snapshot.local, step=1))
    return Plan(
        tuple(desired),
        patches=(_told(tenant, network, trouble, desired, snapshot),),
        events=_notices(tenant, trouble, snapshot),
    )


def _as_it_stands(network: Network, snapshot: Snapshot) -> Network:
    """The default network is the tenant's to change once it is made."""
    standing = snapshot.get(snapshot.local, Network, network.metadata.name)
    if standing is None:
        return network
    meta = replace(network.metadata, finalizers=())
    return replace(network, metadata=meta, spec=standing.spec)


def _wanted(tenant: Tenant, network: Network | None, snapshot: Snapshot) -> set[str]:
    name = tenant.metadata.name
    asked = {namespace_name(name, short) for short in tenant.spec.namespaces}
    if network is not None or tenant_networks(name, snapshot):
        asked |= {namespace_name(name, short) for short in SYSTEM_NAMESPACES}
    return asked


def _namespaces(names: set[str], tenant: str, snapshot: Snapshot) -> Iterator[Desired]:
    """Made where they are missing and left alone from then on: people's work is in them."""
    for name in sorted(names):
        meta = Meta(name=name, labels={TENANT: tenant})
        yield Desired(Namespace(metadata=meta), snapshot.local, unowned=True)


def _foreign(names: set[str], tenant: str, snapshot: Snapshot) -> Iterator[str]:
    """Namespaces of the wanted names that are not this tenant's."""
    for name in sorted(names):
        standing = snapshot.get(snapshot.local, Namespace, name)
        if standing is not None and standing.metadata.labels.get(TENANT, "") != tenant:
            yield f"namespace {name} has no label {TENANT}={tenant}; an administrator can set it"


def _told(
    tenant: Tenant,
    network: Network | None,
    trouble: str,
    desired: list[Desired],
    snapshot: Snapshot,
) -> Patch:
    outcomes = (
        snapshot.fact(WriteOutcome, ClusterObjectRef(d.where, object_ref(d.object)))
        for d in desired
    )
    failed = [
        o.message for o in outcomes if o is not None and o.result in ("Foreign", "RequestDenied")
    ]
    why = trouble or "; ".join(failed)[:4000]
    ready = condition("Ready", not why, "Invalid" if why else "Ready", why)
    conditions = merge_conditions(
        tenant.status.conditions, [ready], snapshot.now, tenant.metadata.generation
    )
    known = (
        network is not None
        and find_network(parse_network_name(network.metadata.name), snapshot) is not None
    )
    status: Wire = {
        "defaultNetwork": network.metadata.name if network is not None and known else None,
        "conditions": msgspec.to_builtins(conditions),
    }
    return Patch(ClusterObjectRef(snapshot.local, object_ref(tenant)), {"status": status}, "status")


def _notices(tenant: Tenant, trouble: str, snapshot: Snapshot) -> tuple[EventRequest, ...]:
    if not trouble:
        return ()
    return (
        EventRequest(
            ClusterObjectRef(snapshot.local, object_ref(tenant)), "Invalid", trouble, "Warning"
        ),
    )


TENANT_HERE = "{{.}}"
_OTHER = re.compile(r"\{\{(?!\.\}\}).*?(\}\}|$)", re.DOTALL)


class InvalidTemplate(ValueError):
    """A default-network template that no network can be made of; the text says what to change."""


def default_network(template: str, tenant: str) -> Network | None:
    """The network that a tenant is given; None where the template is empty."""
    if not template.strip():
        return None
    if (other := _OTHER.search(template)) is not None:
        raise InvalidTemplate(
            f"the default-network template uses {other.group()[:40]!r}; "
            f"{TENANT_HERE} (the tenant's name) is the only substitution"
        )
    told = _document(template.replace(TENANT_HERE, tenant))
    metadata, spec = told.get("metadata") or {}, told.get("spec")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise InvalidTemplate("the default-network template needs metadata and spec as objects")
    short = metadata.get("name")
    if not isinstance(short, str) or not short:
        raise InvalidTemplate("the default-network template needs metadata.name, such as default")
    name = NetworkName(tenant, short.removeprefix(f"{tenant}."))
    wire = {
        "metadata": {"name": str(name), "finalizers": [FINALIZER]},
        "spec": {**spec, "tenant": tenant},
    }
    try:
        network = msgspec.convert(wire, Network)
    except msgspec.ValidationError as error:
        raise InvalidTemplate(f"the default-network template is not a Network: {error}") from None
    if network.spec.type == "vpc" and not network.spec.vpc_id:
        raise InvalidTemplate("the default-network template needs spec.vpcID for type vpc")
    marks = {n: v for n, v in (metadata.get("labels") or {}).items() if isinstance(v, str)}
    meta = Meta(name=str(name), labels=marks, finalizers=(FINALIZER,))
    return Network(metadata=meta, spec=network.spec)


def _document(text: str) -> dict[str, Any]:
    try:
        told = yaml.safe_load(text)  # JSON is YAML
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())[:120]
        raise InvalidTemplate(
            f"the default-network template is neither JSON nor YAML: {where}"
        ) from None
    if not isinstance(told, dict):
        raise InvalidTemplate("the default-network template must be one object")
    return told
