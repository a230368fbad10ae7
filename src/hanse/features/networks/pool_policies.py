"""Admission policies that follow the networks: who may have the addresses and subnets of each."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from hanse.features.networks.admission_policies import (
    POOLS,
    SUBNETS,
    label,
    policy_and_binding,
    resource_rule,
    trusted_expression,
    validation,
)
from hanse.features.networks.names import DEFAULT, NETWORK, TENANT, NetworkName
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.ranges import Range
from hanse.model.objects import Object, Wire


class AddressPool(Struct, frozen=True, order=True):
    """The Service addresses of a network, and the namespaces whose Services may have them."""

    name: NetworkName
    ranges: tuple[Range, ...]
    namespaces: tuple[str, ...]


def address_pool_policy(pools: Iterable[AddressPool]) -> Iterator[Object]:
    """A ValidatingAdmissionPolicy with its binding that protects the addresses of networks.

    By it IPAddresses in a network's ranges are created only for Services of its namespaces. It is
    one for all networks: agents may change it by its name, and no other. Nothing without pools.
    """
    validations = [_pool_validation(pool) for pool in sorted(pools, key=lambda p: p.name)]
    if validations:
        addresses = resource_rule("networking.k8s.io", ("ipaddresses",), ("CREATE",))
        yield from policy_and_binding(POOLS, {"resourceRules": [addresses]}, validations)


def _pool_validation(pool: AddressPool) -> Wire:
    """The CEL rule that an IPAddress is outside of a pool, or of a Service in its namespaces."""
    inside = " || ".join(f"cidr('{r}').containsIP(object.metadata.name)" for r in pool.ranges)
    names = ", ".join(f"'{space}'" for space in sorted(pool.namespaces))
    parent = (
        "(has(object.spec.parentRef) && has(object.spec.parentRef.namespace) ? "
        "object.spec.parentRef.namespace : '')"
    )
    return validation(
        f"!({inside}) || {parent} in [{names}]",
        f"'address ' + object.metadata.name + ' is of network {pool.name}: only Services of "
        f"{pool.name.tenant} have it; try again without a clusterIP'",
    )


_ANNOTATED = (
    *("pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"),
    *("pods/binding", "bindings"),
    *("namespaces", "namespaces/status", "namespaces/finalize"),
)
"""All that change annotations of pods and namespaces; a pod gets those of its binding."""


class ProviderSubnets(Struct, frozen=True, order=True):
    """The names of a network's subnets at its provider, by which pods are put into them."""

    name: NetworkName
    subnets: tuple[str, ...]


def subnet_policy(
    networks: Iterable[ProviderSubnets], annotation: str, options: NetworksOptions
) -> Iterator[Object]:
    """A ValidatingAdmissionPolicy with its binding that protects the subnets of networks.

    By it `annotation` names a network's subnets only on pods and namespaces of that network:
    plugins put a pod into the subnet that it or its namespace names. It is for all namespaces.
    Nothing without networks.
    """
    trusted = trusted_expression(options)
    validations = [_subnets_validation(one, annotation, trusted) for one in sorted(networks)]
    if validations:
        rule = resource_rule("", _ANNOTATED, ("CREATE", "UPDATE"))
        yield from policy_and_binding(SUBNETS, {"resourceRules": [rule]}, validations)


def _subnets_validation(network: ProviderSubnets, annotation: str, trusted: str) -> Wire:
    """The validation that annotations name no subnet of a network, unless it is the object's own.

    Names of annotations may have a prefix, as those of further interfaces do. What an update leaves
    as it is passes. Trusted users may annotate namespaces, not pods: controllers create these from
    templates of anybody. A binding names none: it lacks the labels of its pod.
    """
    names = ", ".join(f"'{subnet}'" for subnet in sorted(network.subnets))
    notes, before = "object.metadata.annotations", "oldObject.metadata.annotations"
    kept = (
        f"request.operation == 'UPDATE' && has({before}) && k in {before} && "
        f"{before}[k] == {notes}[k]"
    )
    named = (
        f"has({notes}) && {notes}.exists(k, k.endsWith('{annotation}') && "
        f"{notes}[k].split(',').exists(s, s in [{names}]) && !({kept}))"
    )
    own = [network.name.network, *([""] if network.name.network == DEFAULT else [])]
    space = f"{label('object', TENANT)} == '{network.name.tenant}'"
    pod = (
        "request.resource.resource == 'pods' && "
        "(!has(request.subResource) || request.subResource != 'binding') && "
        f"{label('namespaceObject', TENANT)} == '{network.name.tenant}' && "
        f"{label('object', NETWORK)} in {own}"
    )
    is_own = f"(request.resource.resource == 'namespaces' ? {space} || {trusted} : {pod})"
    return validation(
        f"!({named}) || {is_own}",
        f"'annotations {annotation}: they name a subnet of network {network.name}; remove them'",
    )
