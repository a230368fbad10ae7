"""A word of warning at the door: a federated policy that no other cluster's traffic can match."""

from hanse.features.policies.content import FEDERATED
from hanse.features.policies.peers import ignored_annotation_warning, peer_warnings
from hanse.model.admission import Allow, Review, Verdict, WebhookRule
from hanse.model.kinds.antrea import GROUP
from hanse.model.kinds.federation import spelled
from hanse.model.snapshot import Snapshot


class PolicyPeersWebhook:
    """Allows every policy, and warns of peers that select nothing federated."""

    name = "policies-peers"
    asks: tuple[WebhookRule, ...] = (
        WebhookRule((GROUP,), ("clusternetworkpolicies", "networkpolicies"), required=False),
    )

    def review(self, review: Review, snapshot: Snapshot) -> Verdict:  # noqa: ARG002 - the rules tell
        metadata = review.object.get("metadata") or {}
        marks = metadata.get("annotations") or {}
        spec = review.object.get("spec")
        if told := ignored_annotation_warning(marks):
            return Allow(warnings=(told,))
        if not isinstance(spec, dict) or spelled(marks, "federated.anp") != "true":
            return Allow()
        return Allow(warnings=tuple(f"{FEDERATED}: {told}" for told in peer_warnings(spec)))
