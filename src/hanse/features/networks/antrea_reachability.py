"""Evaluates policies of Antrea by their specification: the first rule that matches decides.

Tiers are looked at by their priority, policies of a tier by theirs, then rules in order. All tiers
but `baseline` come before the policies of administrators and NetworkPolicies (Pass leaves it to
them), `baseline` decides for pods that no NetworkPolicy selects. What is not evaluated here is told
by `unevaluated`: a rule matches nothing by it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort, is_in_block
from hanse.model.antrea_policies import policy_peers, policy_subjects
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.antrea import Tier as AntreaTier
from hanse.model.objects import Wire
from hanse.model.selectors import decode_selector, selects

AntreaPolicy = AntreaNetworkPolicy | AntreaClusterNetworkPolicy
Direction = Literal["ingress", "egress"]
Verdict = Literal["Accept", "Deny", "Pass"]

_TIERS = {
    "emergency": 50,
    "securityops": 100,
    "networkops": 150,
    "platform": 200,
    "application": 250,
    "baseline": 253,
}
_BASELINE = _TIERS["baseline"]
_ACTIONS: dict[str, Verdict] = {"Allow": "Accept", "Drop": "Deny", "Reject": "Deny"}
_KNOWN_PEERS = {"podSelector", "namespaceSelector", "namespaces", "ipBlock"}
_KNOWN_RULES = {"action", "appliedTo", "enableLogging", "from", "logLabel", "name", "ports", "to"}
_KNOWN_PORTS = {"protocol", "port", "endPort"}


class AntreaRule(Struct, frozen=True):
    """One rule with what its policy says of it."""

    direction: Direction
    action: Verdict
    baseline: bool
    subjects: tuple[Wire, ...]
    wire: Wire
    namespace: str = ""
    """The namespace of the policy; empty for one of the cluster."""


def antrea_rules(
    policies: Iterable[AntreaPolicy], tiers: Iterable[AntreaTier] = ()
) -> list[AntreaRule]:
    """All rules in the order in which they are looked at: by tier, policy priority and position.

    Policies of equal priority are in the order of their names; a policy without tier, or of an
    unknown one, is in `application`. Rules are left out that have, themselves or in ports, fields
    that are not evaluated; peers and subjects with such fields match nothing.
    """
    ranks = {**_TIERS, **{t.metadata.name: int(t.spec.get("priority", 250)) for t in tiers}}

    def order(policy: AntreaPolicy) -> tuple[int, float, str]:
        """Sort key: the rank of the policy's tier, its priority and its name."""
        tier = str(policy.spec.get("tier") or "application").lower()
        return ranks.get(tier, 250), float(policy.spec.get("priority", 0)), policy.metadata.name

    ordered = sorted(((order(p)[0], p) for p in policies), key=lambda one: order(one[1]))
    return [rule for rank, policy in ordered for rule in _rules(policy, rank == _BASELINE)]


def antrea_verdict(
    source: TrafficEndpoint,
    target: TrafficEndpoint,
    port: TrafficPort,
    rules: Sequence[AntreaRule],
    direction: Direction,
    *,
    baseline: bool,
) -> Verdict:
    """What the first matching rule says of a connection, for one of its ends; Pass if none matches.

    The end is the source for egress, else the target; Pass, too, if it is no pod. Only rules of the
    baseline tier count with `baseline`, else only all others.
    """
    subject, peer = (source, target) if direction == "egress" else (target, source)
    if not subject.is_pod:
        return "Pass"
    for rule in rules:
        if rule.direction != direction or rule.baseline is not baseline:
            continue
        applied = any(_matches(one, rule, subject, subject) for one in rule.subjects)
        if applied and _has_peer(rule, peer, subject) and _has_port(rule.wire, target, port):
            return rule.action
    return "Pass"


def antrea_ports(rules: Iterable[AntreaRule]) -> Iterator[TrafficPort]:
    """The ports that rules name by number, and both ends of their ranges; none for names."""
    for rule in rules:
        for entry in rule.wire.get("ports") or ():
            if isinstance(entry.get("port"), int):
                protocol = entry.get("protocol", "TCP")
                yield TrafficPort(entry["port"], protocol)
                yield TrafficPort(entry.get("endPort") or entry["port"], protocol)


def unevaluated(policies: Iterable[AntreaPolicy]) -> list[str]:
    """`NAMESPACE/NAME: fields` of each policy with fields that are not evaluated, sorted."""
    found = []
    for policy in policies:
        space, name = policy.metadata.namespace, policy.metadata.name
        fields = sorted(_unknown_fields(policy.spec))
        if fields:
            found.append(f"{space}/{name}: {', '.join(fields)}".removeprefix("/"))
    return sorted(found)


def _unknown_fields(spec: Wire) -> set[str]:
    """The names of the fields of rules, peers, subjects and ports that are not evaluated."""
    places = (*policy_peers(spec), *policy_subjects(spec))
    fields = {field for _, one in places for field in one if field not in _KNOWN_PEERS}
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            fields |= {field for field in rule if field not in _KNOWN_RULES}
            fields |= _unknown_ports(rule)
    return fields


def _unknown_ports(rule: Wire) -> set[str]:
    """The fields of a rule's ports that are not evaluated, as `ports.FIELD`."""
    entries = rule.get("ports") or ()
    return {f"ports.{field}" for one in entries for field in one if field not in _KNOWN_PORTS}


def _rules(policy: AntreaPolicy, baseline: bool) -> Iterator[AntreaRule]:
    """The rules of a policy, without those that have fields, or fields of ports, not evaluated.

    `baseline` says whether the policy's tier is the baseline. appliedTo of the policy comes before
    that of a rule; an unknown action passes.
    """
    directions: tuple[Direction, ...] = ("ingress", "egress")
    for direction in directions:
        for rule in policy.spec.get(direction) or ():
            if rule.keys() <= _KNOWN_RULES and not _unknown_ports(rule):
                subjects = policy.spec.get("appliedTo") or rule.get("appliedTo") or ()
                action = _ACTIONS.get(str(rule.get("action")), "Pass")
                space = policy.metadata.namespace
                yield AntreaRule(direction, action, baseline, tuple(subjects), rule, space)


def _has_peer(rule: AntreaRule, peer: TrafficEndpoint, subject: TrafficEndpoint) -> bool:
    """Whether one of a rule's peers includes an endpoint; a rule without peers includes all."""
    peers = rule.wire.get("to" if rule.direction == "egress" else "from")
    return not peers or any(_matches(one, rule, peer, subject) for one in peers)


def _matches(
    peer: Wire, rule: AntreaRule, endpoint: TrafficEndpoint, subject: TrafficEndpoint
) -> bool:
    """Whether a peer or subject includes an endpoint.

    An ipBlock compares addresses, selectors match pods only. Never if it is empty, or has fields
    that are not evaluated.
    """
    if not peer or not peer.keys() <= _KNOWN_PEERS:
        return False
    if (block := peer.get("ipBlock")) is not None:
        excluded = block.get("except") or ()
        return any(is_in_block(a, block["cidr"], excluded) for a in endpoint.addresses)
    if not endpoint.is_pod or not _in_namespaces(peer, rule, endpoint, subject):
        return False
    pods = peer.get("podSelector")
    return pods is None or selects(decode_selector(pods), endpoint.labels)


def _in_namespaces(
    peer: Wire, rule: AntreaRule, endpoint: TrafficEndpoint, subject: TrafficEndpoint
) -> bool:
    """Whether a pod is in the namespaces of a peer: `namespaces`, or else `namespaceSelector`.

    The former are the subject's own, or those with the same labels as that. Without both it is the
    policy's namespace, or any for a policy of the cluster.
    """
    if (spaces := peer.get("namespaces")) is not None:
        if spaces.get("match") == "Self":
            return endpoint.namespace == subject.namespace
        labels = spaces.get("sameLabels") or ()
        mine, others = subject.namespace_labels, endpoint.namespace_labels
        return bool(labels) and all(n in mine and mine[n] == others.get(n) for n in labels)
    if (selector := peer.get("namespaceSelector")) is not None:
        return selects(decode_selector(selector), endpoint.namespace_labels)
    return not rule.namespace or endpoint.namespace == rule.namespace


def _has_port(rule: Wire, target: TrafficEndpoint, port: TrafficPort) -> bool:
    """Whether one of a rule's ports includes a port; a rule without ports includes all."""
    entries = rule.get("ports")
    return not entries or any(_is_port(entry, target, port) for entry in entries)


def _is_port(entry: Wire, target: TrafficEndpoint, port: TrafficPort) -> bool:
    """Whether an entry includes a port; a named one is looked up among the target's ports.

    An entry without a port includes all of its protocol, by default TCP; endPort is included.
    """
    protocol = entry.get("protocol", "TCP")
    if protocol != port.protocol:
        return False
    match entry.get("port"):
        case None:
            return True
        case str(name):
            return target.ports.get((name, protocol)) == port.port
        case first:
            return bool(first <= port.port <= (entry.get("endPort") or first))
