"""Admission warnings about federated policies that match no traffic between clusters."""

from collections.abc import Mapping

from hanse.features.policies.content import FEDERATED
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, WebhookRule
from hanse.model.antrea_policies import policy_peers, service_peers
from hanse.model.kinds.antrea import GROUP
from hanse.model.kinds.federation import spelled_label, spelled_value
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot

_LOCAL_PEER_FIELDS = (
    "podSelector",
    "namespaceSelector",
    "namespaces",
    "externalEntitySelector",
    "nodeSelector",
    "serviceAccount",
)
"""Fields of peers that select only objects of the policy's own cluster."""


class PolicyPeersWebhook:
    """Allows every policy, and warns about peers that select nothing in other clusters."""

    name = "policies-peers"
    rules: tuple[WebhookRule, ...] = (
        WebhookRule((GROUP,), ("clusternetworkpolicies", "networkpolicies"), required=False),
    )

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:  # noqa: ARG002 - the protocol
        """Always allow; warn of a federation annotation without effect.

        Without that, warn of the peers of a policy that is federated.
        """
        metadata = review.object.get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        spec = review.object.get("spec")
        if warning := ignored_annotation_warning(annotations):
            return Allow(warnings=(warning,))
        if not isinstance(spec, dict) or spelled_value(annotations, "federated.anp") != "true":
            return Allow()
        return Allow(warnings=tuple(f"{FEDERATED}: {warning}" for warning in peer_warnings(spec)))


def ignored_annotation_warning(annotations: Mapping[str, str]) -> str:
    """The warning about a federation annotation other than `true` or `false`; else empty."""
    value = spelled_value(annotations, "federated.anp")
    if value in (None, "true", "false"):
        return ""
    name = spelled_label(annotations, "federated.anp")
    return f"annotation {name}: {value[:40]!r} is not 'true': the policy is not federated"


def peer_warnings(spec: Wire) -> tuple[str, ...]:
    """Warnings, each with a field path: one for each Service in toServices that has a scope.

    One more, with the first peer's path, if there are peers, all select only objects of the
    policy's own cluster, and no rule has toServices.
    """
    peers = tuple(policy_peers(spec))
    warnings = [
        f"spec.{path}.scope: a federated Service is named without scope; leave it out"
        for path, peer in service_peers(spec)
        if peer.get("scope")
    ]
    local = [path for path, peer in peers if _is_local(peer)]
    if local and len(local) == len(peers) and not any(True for _ in service_peers(spec)):
        warnings.append(
            f"spec.{local[0]} selects only what is in the same cluster: traffic between clusters "
            "is matched by toServices (egress) or by a federated Service's group (ingress)"
        )
    return tuple(warnings)


def _is_local(peer: Wire) -> bool:
    """Whether a peer has a field that selects only objects of the policy's own cluster."""
    return any(name in peer for name in _LOCAL_PEER_FIELDS)
