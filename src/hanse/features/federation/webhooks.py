"""Admission webhooks for ClusterClaims, ClusterProperties and Federations."""

import msgspec

from hanse.features.federation.claims import read_claims
from hanse.features.federation.members import current_federation, entry_fault, secret_fault
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, Deny, WebhookRule
from hanse.model.kinds import about
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    GROUP,
    SYSTEM,
    ClusterClaim,
    Federation,
)
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot

RESERVED = ("broker",)
"""Ids that mean something else to agents."""

_FORMS = "; write a string, or a claim with name and value"
_UNLISTED = Deny("Hanse has not read the Federations of this cluster yet; try again", 503)


class ClusterClaimWebhook:
    """Denies changes of the cluster id while a Federation exists, and a second id."""

    name = "cluster-claims"
    rules = (
        WebhookRule((GROUP,), (ClusterClaim.kind.plural,), ("CREATE", "UPDATE", "DELETE")),
        WebhookRule(
            (about.ClusterProperty.kind.group,),
            (about.ClusterProperty.kind.plural,),
            ("UPDATE", "DELETE"),
        ),
    )

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Deny a second, other id, and a change or deletion of the id while a Federation exists.

        A wrong id may be deleted while another claim has the right one. Until Federations are
        listed, changes of the id are denied with code 503; claims about other things are allowed.
        """
        before, after = _claimed_id(review, review.before), _claimed_id(review, review.object)
        if before is None:
            return _review_second_id(review, after, snapshot)
        if before == after or _is_redundant(review, before, snapshot):
            return Allow()
        if not snapshot.listed_or_unserved(snapshot.local, Federation):
            return _UNLISTED
        federation = current_federation(snapshot)
        if federation is None:
            return Allow()
        done = "deleted" if review.operation == "DELETE" else f"changed from {before!r}"
        text = f"{review.kind} {review.name}: the id of a cluster cannot be {done} while Federation"
        return Deny(f"{text} {federation.metadata.name} exists; delete that Federation first")


class FederationWebhook:
    """Denies a second Federation, and members that cannot be valid."""

    name = "federations"
    rules = (WebhookRule((GROUP,), (Federation.kind.plural,), ("CREATE", "UPDATE")),)

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Deny a second Federation, a wrong set or invalid members; allow updates of the same spec.

        A creation is denied with code 503 until the Federations are listed, and any object that
        cannot be decoded with 422. Unusable Secrets of members are only warnings.
        """
        if review.operation == "CREATE" and not snapshot.listed_or_unserved(
            snapshot.local, Federation
        ):
            return _UNLISTED
        current = current_federation(snapshot)
        if (
            review.operation == "CREATE"
            and current is not None
            and current.metadata.name != review.name
        ):
            name = current.metadata.name
            return Deny(
                f"metadata.name: Federation {name} exists, and a cluster has one; change that one"
            )
        if review.object.get("spec") == review.before.get("spec") and review.before:
            return Allow()  # metadata and status of an invalid Federation may change
        try:
            federation = msgspec.convert(review.object, Federation, strict=False)
        except msgspec.ValidationError as error:
            hint = _FORMS if str(error).endswith(("clusterID`", "clusterSet`")) else ""
            return Deny(f"not a Federation: {error}{hint}", 422)
        return _review_members(federation, snapshot)


def _review_members(federation: Federation, snapshot: Snapshot) -> Allow | Deny:
    """Deny (422) a wrong cluster set, reserved ids or invalid entries, by the first that is found.

    Else Allow, with a warning for each unusable Secret of a member but the local cluster.
    """
    claims = read_claims(snapshot, snapshot.local)
    named = federation.spec.cluster_set
    if claims is not None and named and claims.cluster_set not in ("", named):
        return Deny(
            f"spec.clusterSet: {named!r} is not what ClusterClaim clusterset.k8s.io says, "
            f"{claims.cluster_set!r}; let both say the same",
            422,
        )
    members = federation.spec.members
    warnings: list[str] = []
    for index, member in enumerate(members):
        if member.cluster_id in RESERVED:
            field = f"spec.members[{index}].clusterID"
            return Deny(f"{field}: {member.cluster_id!r} means the broker; choose another id", 422)
        if fault := entry_fault(index, member, members):
            return Deny(f"{fault.field}: {fault.message}", 422)
        secret = snapshot.get(snapshot.local, Secret, member.secret, SYSTEM)
        is_remote = member.cluster_id != snapshot.local
        if is_remote and (fault := secret_fault(index, member, secret)) is not None:
            warnings.append(f"{fault.field}: {fault.message}")
    return Allow(warnings=tuple(warnings))


def _review_second_id(
    review: AdmissionRequest, after: str | None, snapshot: Snapshot
) -> Allow | Deny:
    """Deny a claimed id (`after`) other than the cluster's known one.

    Allow where the cluster has none, its claims are not listed, or the object claims none.
    """
    claims = read_claims(snapshot, snapshot.local)
    known = claims.cluster_id if claims is not None else ""
    if after is None or not known or known == after:
        return Allow()
    text = f"{review.kind} {review.name}: this cluster's id is {known!r} already, not {after!r}"
    return Deny(f"{text}; a cluster has one id")


def _is_redundant(review: AdmissionRequest, before: str, snapshot: Snapshot) -> bool:
    """Whether an id other than the agent's is being deleted, and another claim has the agent's."""
    others = (
        c for c in snapshot.all(snapshot.local, ClusterClaim) if c.metadata.name != review.name
    )
    has_own = any(c.about == CLUSTER_ID and c.value == snapshot.local for c in others)
    return before != snapshot.local and has_own and review.operation == "DELETE"


def _claimed_id(review: AdmissionRequest, wire: Wire) -> str | None:
    """The cluster id in a claim or property; None without an object, or about another thing.

    Empty if it has no value.
    """
    if not wire:
        return None
    name = str((wire.get("metadata") or {}).get("name") or review.name)
    if review.group == GROUP:
        subject = str(wire.get("name") or name).lower()
        return str(wire.get("value", "")) if subject == CLUSTER_ID else None
    spec = wire.get("spec") or {}
    return str(spec.get("value", "")) if name == about.CLUSTER_ID else None


WEBHOOKS = (ClusterClaimWebhook(), FederationWebhook())
