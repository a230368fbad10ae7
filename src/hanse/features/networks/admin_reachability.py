"""Evaluates ClusterNetworkPolicies by their specification: what administrators decide first.

In each tier the first rule that matches decides, by priority and order: the Admin tier before
NetworkPolicies (Pass leaves it to them), the Baseline tier for pods that none of those selects.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort, is_in_block
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import Wire
from hanse.model.selectors import decode_selector, selects

Tier = Literal["Admin", "Baseline"]
Verdict = Literal["Accept", "Deny", "Pass"]
_ACTIONS: dict[str, Verdict] = {"Accept": "Accept", "Allow": "Accept", "Deny": "Deny"}


def admin_verdict(
    source: TrafficEndpoint,
    target: TrafficEndpoint,
    port: TrafficPort,
    policies: Iterable[ClusterNetworkPolicy],
    direction: Literal["ingress", "egress"],
    tier: Tier,
) -> Verdict:
    """What a tier says of a connection, for one of its ends: the first rule that matches decides.

    Policies are in the order of priority, then name. The end is the source for egress, else the
    target. Pass if no rule matches, or if that end is no pod.
    """
    subject, peer = (source, target) if direction == "egress" else (target, source)
    if not subject.is_pod:
        return "Pass"
    chosen = [p for p in policies if p.spec.tier == tier and _matches(p.spec.subject, subject)]
    for policy in sorted(chosen, key=lambda p: (p.spec.priority, p.metadata.name)):
        rules = policy.spec.egress if direction == "egress" else policy.spec.ingress
        for rule in rules:
            peers = rule.get("to" if direction == "egress" else "from") or ()
            if any(_matches(one, peer) for one in peers) and _has_port(rule, port):
                return _ACTIONS.get(str(rule.get("action")), "Pass")
    return "Pass"


def admin_ports(policies: Iterable[ClusterNetworkPolicy]) -> Iterator[TrafficPort]:
    """The port numbers in rules of ClusterNetworkPolicies, with both ends of ranges.

    Ports by name are left out.
    """
    for policy in policies:
        for rule in (*policy.spec.ingress, *policy.spec.egress):
            for protocol, first, last in _ports(rule):
                if first is not None:
                    yield TrafficPort(first, protocol)
                    yield TrafficPort(last or first, protocol)


def _matches(peer: Wire, endpoint: TrafficEndpoint) -> bool:
    """Whether a subject or peer includes an endpoint: by namespaces, else pods, else networks.

    Only the first of these that it has counts. Selectors include pods alone, networks any address.
    """
    if (spaces := peer.get("namespaces")) is not None:
        return endpoint.is_pod and selects(decode_selector(spaces), endpoint.namespace_labels)
    if (pods := peer.get("pods")) is not None:
        return (
            endpoint.is_pod
            and selects(decode_selector(pods.get("namespaceSelector")), endpoint.namespace_labels)
            and selects(decode_selector(pods.get("podSelector")), endpoint.labels)
        )
    ranges: Sequence[str] = peer.get("networks") or ()
    return any(is_in_block(address, text) for address in endpoint.addresses for text in ranges)


def unevaluated_ports(policies: Iterable[ClusterNetworkPolicy]) -> list[str]:
    """`NAME: FIELD` for each policy and field with ports by name, which are not evaluated.

    Sorted, each once.
    """
    found = {
        f"{policy.metadata.name}: {field}"
        for policy in policies
        for rule in (*policy.spec.ingress, *policy.spec.egress)
        for field, said in _port_entries(rule)
        if isinstance(said, str)
    }
    return sorted(found)


def _has_port(rule: Wire, port: TrafficPort) -> bool:
    """Whether a rule includes a port; one without port entries includes all.

    Entries by port name include none, as the pod's names are not known here.
    """
    return not list(_port_entries(rule)) or any(
        protocol == port.protocol and (first is None or first <= port.port <= (last or first))
        for protocol, first, last in _ports(rule)
    )


def _ports(rule: Wire) -> Iterator[tuple[Any, int | None, int | None]]:
    """Protocol, first and last port of each entry by number; no port means all of the protocol.

    The last is None for a single port. Entries by name are left out.
    """
    for field, said in _port_entries(rule):
        if isinstance(said, str):
            continue
        if field in ("portNumber", "portRange"):  # `ports` of earlier versions
            first = said.get("port") if field == "portNumber" else said.get("start")
            yield said.get("protocol", "TCP"), first, said.get("end")
        else:
            wanted = (said or {}).get("destinationPort") or {}
            span = wanted.get("range") or {}
            first = wanted.get("number") or span.get("start")
            yield field.upper(), first, span.get("end")


def _port_entries(rule: Wire) -> Iterator[tuple[str, Any]]:
    """Field and value of each entry of `protocols`, and of `ports` of earlier versions."""
    for entry in (*(rule.get("protocols") or ()), *(rule.get("ports") or ())):
        yield from entry.items()
