"""Tenants: their namespaces, and their default network from a template."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from hanse.features.networks.admission_policies import POD_SECURITY
from hanse.features.networks.lookups import find_network, tenant_networks
from hanse.features.networks.names import (
    DNS_NAMESPACE,
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
from hanse.model.plan import CreateOnly, Desired, Key, Patch, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.status import condition_events
from hanse.model.yaml_input import load_yaml

SYSTEM_NAMESPACES = ("default", DNS_NAMESPACE)


def plan_tenant(key: Key, snapshot: Snapshot, options: NetworksOptions) -> Plan:
    """The namespaces of a tenant, which outlive it, its default network, and its status.

    With an invalid template there is no default network, and Ready is False, as with namespaces of
    others. An empty plan for a tenant that is gone or being deleted.
    """
    tenant = snapshot.get(snapshot.local, Tenant, key.name)
    if tenant is None or tenant.metadata.deletion_timestamp is not None:
        return Plan()
    error_message = ""
    network: Network | None = None
    try:
        network = default_network(options.template, key.name)
    except InvalidTemplate as error:
        error_message = str(error)
    namespaces = _namespace_names(tenant, network, snapshot)
    error_message = error_message or "; ".join(_foreign_namespaces(namespaces, key.name, snapshot))
    desired = list(_namespaces(namespaces, key.name, snapshot))
    if network is not None:
        desired.append(Desired(_with_current_spec(network, snapshot), snapshot.local, step=1))
    return _status_plan(tenant, network, error_message, desired, snapshot)


def _with_current_spec(network: Network, snapshot: Snapshot) -> Network:
    """The default network as desired: once it exists, with its present spec and without finalizers.

    So changes of the spec by the tenant stay.
    """
    current = snapshot.get(snapshot.local, Network, network.metadata.name)
    if current is None:
        return network
    meta = replace(network.metadata, finalizers=())
    return replace(network, metadata=meta, spec=current.spec)


def _namespace_names(tenant: Tenant, network: Network | None, snapshot: Snapshot) -> set[str]:
    """The full names of a tenant's namespaces: those of its spec.

    With a default network or any other also `default` and `kube-system`.
    """
    name = tenant.metadata.name
    names = {namespace_name(name, short_name) for short_name in tenant.spec.namespaces}
    if network is not None or tenant_networks(name, snapshot):
        names |= {namespace_name(name, short_name) for short_name in SYSTEM_NAMESPACES}
    return names


def _namespaces(names: set[str], tenant: str, snapshot: Snapshot) -> Iterator[Desired]:
    """The desired namespaces, with tenant label and Pod Security level baseline.

    They are created where missing, and never owned, changed or deleted.
    """
    for name in sorted(names):
        meta = Meta(name=name, labels={TENANT: tenant, POD_SECURITY: "baseline"})
        yield Desired(Namespace(metadata=meta), snapshot.local, ownership=CreateOnly())


def _foreign_namespaces(names: set[str], tenant: str, snapshot: Snapshot) -> Iterator[str]:
    """Yield a message for each namespace that exists without the tenant's label."""
    for name in sorted(names):
        current = snapshot.get(snapshot.local, Namespace, name)
        if current is not None and current.metadata.labels.get(TENANT, "") != tenant:
            yield f"namespace {name} has no label {TENANT}={tenant}; an administrator can set it"


def _status_plan(
    tenant: Tenant,
    network: Network | None,
    error_message: str,
    desired: list[Desired],
    snapshot: Snapshot,
) -> Plan:
    """The desired objects of a tenant with its status: Ready with its Events, and its network.

    Ready is False with `error_message`, or else with the messages of failed writes that only people
    can mend. The default network is named only once it exists.
    """
    outcomes = (
        snapshot.fact(WriteOutcome, ClusterObjectRef(d.where, object_ref(d.object)))
        for d in desired
    )
    failed = [o.message for o in outcomes if o is not None and o.is_final]
    message = error_message or "; ".join(failed)[:4000]
    ready = condition("Ready", not message, "Invalid" if message else "Ready", message)
    conditions = merge_conditions(
        tenant.status.conditions, [ready], snapshot.now, tenant.metadata.generation
    )
    exists = (
        network is not None
        and find_network(parse_network_name(network.metadata.name), snapshot) is not None
    )
    status: Wire = {
        "defaultNetwork": network.metadata.name if network is not None and exists else None,
        "conditions": msgspec.to_builtins(conditions),
    }
    ref = ClusterObjectRef(snapshot.local, object_ref(tenant))
    events = tuple(condition_events(ref, tenant.status.conditions, [ready]))
    return Plan(tuple(desired), patches=(Patch(ref, {"status": status}, "status"),), events=events)


TENANT_PLACEHOLDER = "{{.}}"
_OTHER_PLACEHOLDER = re.compile(r"\{\{(?!\.\}\}).*?(\}\}|$)", re.DOTALL)


class InvalidTemplate(ValueError):
    """A default-network template that is not a valid Network; the message says why."""


def default_network(template: str, tenant: str) -> Network | None:
    """The default network of a tenant by the template; None if the template is empty.

    It is named `TENANT.NAME` and has the template's labels and spec, and our finalizer; `{{.}}` is
    the tenant. Raises `InvalidTemplate` if it is no Network, uses another variable, or is of type
    vpc without vpcID.
    """
    if not template.strip():
        return None
    if (other := _OTHER_PLACEHOLDER.search(template)) is not None:
        raise InvalidTemplate(
            f"the default-network template uses {other.group()[:40]!r}; "
            f"{TENANT_PLACEHOLDER} (the tenant's name) is the only substitution"
        )
    document = _parse_template(template.replace(TENANT_PLACEHOLDER, tenant))
    metadata, spec = document.get("metadata") or {}, document.get("spec")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise InvalidTemplate("the default-network template needs metadata and spec as objects")
    short_name = metadata.get("name")
    if not isinstance(short_name, str) or not short_name:
        raise InvalidTemplate("the default-network template needs metadata.name, such as default")
    name = NetworkName(tenant, short_name.removeprefix(f"{tenant}."))
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
    labels = {n: v for n, v in (metadata.get("labels") or {}).items() if isinstance(v, str)}
    meta = Meta(name=str(name), labels=labels, finalizers=(FINALIZER,))
    return Network(metadata=meta, spec=network.spec)


def _parse_template(text: str) -> dict[str, Any]:
    """Parse a JSON or YAML object; raises `InvalidTemplate` if the text is anything else."""
    try:
        parsed = load_yaml(text)  # JSON is YAML
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())[:120]
        raise InvalidTemplate(
            f"the default-network template is neither JSON nor YAML: {where}"
        ) from None
    if not isinstance(parsed, dict):
        raise InvalidTemplate("the default-network template must be one object")
    return parsed
