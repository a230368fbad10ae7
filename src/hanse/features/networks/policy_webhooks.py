"""Admission of tenants' NetworkPolicies: they must not allow traffic with other tenants."""

from collections.abc import Iterator, Sequence

import msgspec

from hanse.features.networks.admission import (
    TENANT_NAMESPACES,
    evaluate,
    is_trusted,
    read_tenant,
)
from hanse.features.networks.feature import Networks
from hanse.features.networks.guarded_nodes import Isolation, isolated_by
from hanse.features.networks.lookups import namespace_tenant
from hanse.features.networks.names import NAMESPACE_NAME, TENANT
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, Deny, WebhookRule
from hanse.model.kinds.networking import LabelSelector, NetworkPolicy, PolicyPeer
from hanse.model.snapshot import Snapshot


class PoliciesHook:
    """Denies NetworkPolicies that could select pods of other tenants."""

    name = "networks-policies"
    rules = (
        WebhookRule(
            ("networking.k8s.io",),
            ("networkpolicies",),
            ("CREATE", "UPDATE"),
            namespaces=TENANT_NAMESPACES,
        ),
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Allow trusted users; deny others' NetworkPolicies if malformed or open to other tenants.

        May ask for a live read of the namespace first.
        """
        if is_trusted(review, self._feature.options):
            return Allow()
        return evaluate(self._admit, review, snapshot)

    def _admit(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Deny a malformed policy (422) or rules open to other tenants; else allow, with warnings.

        They warn of IP blocks, and where NetworkPolicies isolate networks that it cannot narrow
        these. Raises `ReadRequired` if the namespace has to be read first, `RequestDenied` if that
        failed.
        """
        try:
            policy = msgspec.convert(review.object, NetworkPolicy, strict=False)
        except msgspec.ValidationError as error:
            return Deny(f"it is not a NetworkPolicy: {error}", 422)
        tenant = read_tenant(review.namespace, snapshot)
        if errors := list(_cross_tenant_rules(policy, tenant, snapshot)):
            return Deny("; ".join(errors))
        by = isolated_by(snapshot, self._feature.options)
        warnings = (NOT_NARROWING,) if by is Isolation.POLICIES else ()
        return Allow(warnings=(*warnings, *_ip_block_warnings(policy)))


NOT_NARROWING = (
    "NetworkPolicies isolate networks here and allow all within a network, which this one cannot "
    "narrow; they do not where each node has a guard (--network-node-guards)"
)
"""Policies only add up."""


class PluginPoliciesHook:
    """Denies policies of network plugins by which tenants allow what NetworkPolicies deny."""

    name = "networks-plugin-policies"
    rules = tuple(
        WebhookRule((group,), ("networkpolicies",), namespaces=TENANT_NAMESPACES)
        for group in ("crd.antrea.io", "projectcalico.org", "crd.projectcalico.org")
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:  # noqa: ARG002 - the contract
        """Deny a policy with a rule whose action is none of Drop, Reject, Deny and Log.

        A rule without an action allows, so it is denied. Trusted users may write any policy.
        """
        if is_trusted(review, self._feature.options):
            return Allow()
        spec = review.object.get("spec") or {}
        for direction in ("ingress", "egress"):
            for at, rule in enumerate(spec.get(direction) or ()):
                action = str(rule.get("action") or "Allow") if isinstance(rule, dict) else ""
                if action not in _NARROWING_ACTIONS:
                    return Deny(
                        f"spec.{direction}[{at}].action: {action[:20]} would decide before "
                        "the policies that isolate networks; use a NetworkPolicy, or one of "
                        f"{', '.join(_NARROWING_ACTIONS)}"
                    )
        return Allow()


_NARROWING_ACTIONS = ("Drop", "Reject", "Deny", "Log")


def _cross_tenant_rules(policy: NetworkPolicy, tenant: str, snapshot: Snapshot) -> Iterator[str]:
    """A message for each rule without peers, and each namespaceSelector not limited to the tenant.

    Peers without namespaceSelector have none.
    """
    directions: Sequence[tuple[str, Sequence[tuple[PolicyPeer, ...]]]] = (
        ("spec.ingress[{}].from", [rule.from_ for rule in policy.spec.ingress or ()]),
        ("spec.egress[{}].to", [rule.to for rule in policy.spec.egress or ()]),
    )
    for field, rules in directions:
        for at, peers in enumerate(rules):
            where = field.format(at)
            if not peers:
                yield (
                    f"{where}: without peers it is open to other tenants; name peers, "
                    "or an ipBlock for the world outside"
                )
            for number, peer in enumerate(peers):
                selector = peer.namespace_selector
                if selector is not None and not _selects_only_tenant(selector, tenant, snapshot):
                    yield (
                        f"{where}[{number}].namespaceSelector: it may select namespaces of other "
                        f"tenants; add matchLabels {TENANT}: {tenant}"
                    )


def _selects_only_tenant(selector: LabelSelector, tenant: str, snapshot: Snapshot) -> bool:
    """Whether a namespace selector requires the tenant's label, or names only its namespaces.

    The latter by label `kubernetes.io/metadata.name`, and by namespaces in the snapshot, whose
    label must be the tenant's.
    """
    if selector.match_labels.get(TENANT) == tenant:
        return True
    named: list[tuple[str, ...]] = []
    if NAMESPACE_NAME in selector.match_labels:
        named.append((selector.match_labels[NAMESPACE_NAME],))
    for rule in selector.match_expressions:
        if rule.operator != "In":
            continue
        if rule.key == TENANT and set(rule.values) == {tenant}:
            return True
        if rule.key == NAMESPACE_NAME:
            named.append(rule.values)
    return any(all(namespace_tenant(name, snapshot) == tenant for name in names) for names in named)


def _ip_block_warnings(policy: NetworkPolicy) -> Iterator[str]:
    """One warning if a policy has IP blocks, which may contain pods of other tenants; else none."""
    blocks = [
        peer.ip_block.cidr
        for peers in (
            *(rule.from_ for rule in policy.spec.ingress or ()),
            *(rule.to for rule in policy.spec.egress or ()),
        )
        for peer in peers
        if peer.ip_block is not None
    ]
    if blocks:
        yield (
            f"ipBlock {', '.join(blocks[:3])} may hold pods of other tenants: what they allow on "
            "their side decides"
        )
