"""Replicated policies: where each is applied, blocked or in conflict, with crossed versions."""

from collections.abc import Iterable, Iterator

import yaml
from msgspec.structs import replace

from hanse.features.policies.content import FEDERATED
from hanse.features.policies.ledger import (
    LEDGER_LABEL,
    PAGE_TOPIC,
    POLICIES,
    PolicyRecord,
    decode_record,
    record_key,
    record_name,
)
from hanse.features.policies.listing import MemberStatus, PolicyView, list_shown_policies
from hanse.features.policies.versions import merge_all
from hanse.features.policies.webhooks import ignored_annotation_warning, peer_warnings
from hanse.model.antrea_policies import named_groups, policy_subjects, service_peers
from hanse.model.facts import Role
from hanse.model.findings import Finding, Ref, Remedy, Severity, cluster_ref, remedy, subject_of
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.antrea import (
    NO_NODE,
    AntreaClusterNetworkPolicy,
    AntreaNetworkPolicy,
    ClusterGroup,
    ExternalEntity,
    Group,
)
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.federation import SYSTEM, spelled_label, spelled_value
from hanse.model.object_view import ObjectRule, ObjectsView, object_finding
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Key
from hanse.model.refused_writes import write_causes
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import ClusterPart, FeatureItem, State, state_of, worst

_TOPICS = ("acnp", "anp")


class PoliciesView:
    """Every policy that a ledger knows."""

    name = "policies"
    reads = (Watch(Role.LOCAL, ConfigMap, SYSTEM, f"{LEDGER_LABEL}={POLICIES}"),)

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The item key of every policy with a record in any cluster: `NAMESPACE/NAME`.

        `every namespace/NAME` for a cluster-wide policy.
        """
        return {key for _, ledger in snapshot.everywhere(ConfigMap) for key in _item_key(ledger)}

    def keys_for(self, change: Change) -> Iterable[str]:
        """The item keys of a ledger record before and after a change.

        None for pages, facts and other objects.
        """
        if isinstance(change, FactChange):
            return ()
        sides = (s for s in (change.before, change.after) if isinstance(s, ConfigMap))
        return {key for side in sides for key in _item_key(side)}

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> FeatureItem | None:
        """The item of a policy, from its ledgers in all clusters; None if there are none.

        None, too, for one that is no longer present and needs no attention.
        """
        policy_key = _policy_key(key)
        ledgers = {
            where: ledger
            for where in snapshot.clusters
            if (ledger := snapshot.get(where, ConfigMap, record_name(policy_key), SYSTEM))
            is not None
        }
        for policy in list_shown_policies({where: (ledger,) for where, ledger in ledgers.items()}):
            return _policy_item(policy, ledgers, snapshot)
        return None


def _item_key(ledger: ConfigMap) -> tuple[str, ...]:
    """The item key `NAMESPACE/NAME` of a record's policy, in a tuple; empty for other ConfigMaps.

    The namespace of a cluster-wide policy is `every namespace`; pages have no item.
    """
    key = record_key(ledger)
    if key is None or key.topic == PAGE_TOPIC:
        return ()
    return (f"{key.namespace or 'every namespace'}/{key.name}",)


def _policy_key(shown: str) -> Key:
    """The key for an item key `NAMESPACE/NAME`.

    `every namespace` stands for a cluster-wide policy.
    """
    namespace, _, name = shown.partition("/")
    whole = namespace == "every namespace"
    return Key(_TOPICS[0], name) if whole else Key(_TOPICS[1], name, namespace)


def _policy_item(
    policy: PolicyView, ledgers: dict[ClusterId, ConfigMap], snapshot: MultiClusterSnapshot
) -> FeatureItem:
    """The item of a policy: its state in each cluster and its problems.

    One with overruled versions is shown as `conflict`, with the winning and the overruled versions.
    """
    parts = tuple(_member_part(where, one) for where, one in sorted(policy.members.items()))
    findings = tuple(_findings(policy, snapshot))
    return FeatureItem(
        namespace=policy.namespace or "every namespace",
        name=policy.name,
        state=state_of(findings, worst(part.state for part in parts)),
        findings=findings,
        told="conflict" if policy.overruled else policy.state,
        facts=(
            ("Kind", _kind(policy).kind.name),
            ("Made in", policy.origin),
        ),
        parts=parts,
        problems=tuple(
            f"{where}: {one.reason or one.phase}{': ' if one.message else ''}{one.message}"
            for where, one in sorted(policy.members.items())
            if one.needs_attention
        ),
        versions=_versions(policy, ledgers) if policy.overruled else (),
    )


def _findings(policy: PolicyView, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """A finding for each member whose status needs attention, by cluster.

    Then PolicyConflict for each overruled version.
    """
    kind = _kind(policy).kind.name
    for cluster, member in sorted(policy.members.items()):
        if member.needs_attention:
            yield _member_finding(policy, cluster, member, snapshot)
    for lost in policy.overruled:
        yield Finding(
            code="PolicyConflict",
            severity=Severity.RISK,
            subject=Ref(kind, policy.name, policy.namespace),
            summary=f"policy {policy.label}: what {lost.cluster} did crossed with what "
            f"{policy.origin} did, whose version counts",
            remedy=remedy(
                f"hanse policies resolve {policy.label} --keep",
                advice=f"or with --take {lost.cluster}: its version counts",
            ),
        )


def _member_finding(
    policy: PolicyView, cluster: ClusterId, member: MemberStatus, snapshot: MultiClusterSnapshot
) -> Finding:
    """PolicyQuarantined (by phase), PolicyDeletionHeld (reason Held) or else PolicyBlocked.

    Its subject is the policy in one member.
    """
    subject = Ref(_kind(policy).kind.name, policy.name, policy.namespace, cluster)
    message = f"in {cluster}: {member.message or member.reason}"
    if member.phase == "Quarantined":
        keep = f"hanse policies resolve {policy.label} --in {cluster} --keep"
        return Finding(
            code="PolicyQuarantined",
            severity=Severity.DEGRADED,
            subject=subject,
            summary=f"policy {policy.label} is quarantined {message}",
            remedy=remedy(keep, advice="or the same with --yield: the others' version counts"),
        )
    if member.reason == "Held":
        return Finding(
            code="PolicyDeletionHeld",
            severity=Severity.DEGRADED,
            subject=subject,
            summary=f"policy {policy.label} is gone {message}",
            remedy=remedy(advice="create it there anew, or allow that it is deleted everywhere"),
            caused_by=(cluster_ref(cluster),),
        )
    return Finding(
        code="PolicyBlocked",
        severity=Severity.DEGRADED,
        subject=subject,
        summary=f"policy {policy.label} is blocked {message}",
        remedy=_unblock_remedy(policy, cluster, member, snapshot),
        caused_by=(*write_causes(cluster, member.message, snapshot), cluster_ref(cluster)),
    )


def _kind(policy: PolicyView) -> type[AntreaClusterNetworkPolicy | AntreaNetworkPolicy]:
    """The class of a shown policy: cluster-wide for `acnp`, else namespaced."""
    return AntreaClusterNetworkPolicy if policy.kind == "acnp" else AntreaNetworkPolicy


def _unblock_remedy(
    policy: PolicyView, where: ClusterId, member: MemberStatus, snapshot: MultiClusterSnapshot
) -> Remedy:
    """The remedy of a Blocked policy, by its reason.

    If a plain policy has its name, the command that federates that; else advice only.
    """
    if member.reason != "PlainPolicy":
        return remedy(advice="mend what the message names; it is tried again by itself")
    kind = _kind(policy).kind
    share = f"annotate {kind.plural}.{kind.group} {policy.name} {FEDERATED}=true"
    return remedy(
        snapshot.kubectl(where, share, policy.namespace),
        advice="which keeps both where they differ, until you say which one counts; or rename one",
    )


def _member_part(where: ClusterId, one: MemberStatus) -> ClusterPart:
    """A cluster's part: bad if it needs attention, good if Applied, else idle.

    Its text is the reason, or else the phase.
    """
    state: State = "bad" if one.needs_attention else "good" if one.phase == "Applied" else "idle"
    return ClusterPart(cluster=where, state=state, text=one.reason or one.phase)


def _versions(
    policy: PolicyView, ledgers: dict[ClusterId, ConfigMap]
) -> tuple[tuple[str, str], ...]:
    """Title and YAML of the version that counts, and of those that lost against it."""
    records = (decode_record(ledger) for ledger in ledgers.values())
    winner = merge_all(r.history for r in records if isinstance(r, PolicyRecord)).winner
    counts = (
        () if winner is None else ((f"{policy.origin} (counts)", _yaml_text(winner.content.spec)),)
    )
    lost = tuple(
        (f"{one.cluster} ({one.state.lower()}, overruled)", _yaml_text(one.spec))
        for one in policy.overruled
    )
    return (*counts, *lost)


def _yaml_text(spec: dict[str, object]) -> str:
    """A spec as YAML; empty for an empty one."""
    return yaml.safe_dump(spec, sort_keys=True) if spec else ""


def _check_policy(
    policy: AntreaNetworkPolicy | AntreaClusterNetworkPolicy,
    where: ClusterId,
    snapshot: MultiClusterSnapshot,
) -> Iterator[Finding]:
    """PolicyIgnored if the federation annotation has no effect, and PolicyNotEnforced, of a policy.

    Of a federated one also PolicyLocalPeers, whose subject names no cluster, for each peer warning,
    and one PolicyNamesNothing for all missing names.
    """
    annotations = policy.metadata.annotations
    if message := ignored_annotation_warning(annotations):
        yield object_finding(
            policy, where, "PolicyIgnored", message, snapshot, severity=Severity.RISK
        )
    if spelled_value(annotations, "federated.anp") == "true":
        name = spelled_label(annotations, "federated.anp")
        plural = f"{type(policy).kind.plural}.{type(policy).kind.group}"
        erase = f"annotate {plural} {policy.name} {name}-"
        mend = remedy(
            snapshot.kubectl(where, erase, policy.namespace),
            advice="which leaves it to each cluster; or name federated Services as peers",
        )
        for message in peer_warnings(policy.spec):
            found = object_finding(
                policy,
                where,
                "PolicyLocalPeers",
                message,
                snapshot,
                severity=Severity.RISK,
                mend=mend,
            )
            yield replace(found, subject=subject_of(policy))  # the same in every member
        if missing := "; ".join(_missing_name_messages(policy, where, snapshot)):
            yield object_finding(
                policy,
                where,
                "PolicyNamesNothing",
                missing,
                snapshot,
                severity=Severity.RISK,
                mend=mend,
            )
    for message in _unenforced_message(policy, where, snapshot):
        yield object_finding(
            policy, where, "PolicyNotEnforced", message, snapshot, severity=Severity.RISK
        )


def _missing_name_messages(
    policy: AntreaNetworkPolicy | AntreaClusterNetworkPolicy,
    where: ClusterId,
    snapshot: MultiClusterSnapshot,
) -> Iterator[str]:
    """A message for each group or Service that a policy names and its cluster does not have.

    A group is a Group in its namespace, of a cluster-wide policy a ClusterGroup. Nothing about a
    kind that is not listed there.
    """
    namespace = policy.metadata.namespace
    for path, group in named_groups(policy.spec):
        kind: type[Object] = Group if namespace else ClusterGroup
        missing = f"Group {namespace}/{group}" if namespace else f"ClusterGroup {group}"
        found = snapshot.get(where, kind, group, namespace)
        if found is None and snapshot.listed(where, kind):
            yield f"spec.{path}: there is no {missing}: it matches nothing; mend the name"
    for path, peer in service_peers(policy.spec):
        name, space = str(peer.get("name", "")), str(peer.get("namespace") or namespace)
        service = snapshot.get(where, Service, name, space)
        if name and service is None and snapshot.listed(where, Service):
            missing = f"Service {space}/{name}"
            yield f"spec.{path}: there is no {missing}: it matches nothing; mend the name"


def clusters_naming_services(snapshot: MultiClusterSnapshot) -> Iterator[ClusterId]:
    """The clusters with an Antrea policy, federated or not, that has toServices in egress rules."""
    for where in snapshot.clusters:
        kinds: tuple[type[AntreaNetworkPolicy | AntreaClusterNetworkPolicy], ...] = (
            AntreaNetworkPolicy,
            AntreaClusterNetworkPolicy,
        )
        if any(
            any(True for _ in service_peers(one.spec))
            for kind in kinds
            for one in snapshot.all(where, kind)
        ):
            yield where


def _unenforced_message(
    policy: AntreaNetworkPolicy | AntreaClusterNetworkPolicy,
    where: ClusterId,
    snapshot: MultiClusterSnapshot,
) -> Iterator[str]:
    """One message if a policy applies to machines, and no ExternalEntity is of an ExternalNode.

    It does so by `externalEntitySelector` in appliedTo. ExternalEntities that Hanse writes are of
    none.
    """
    paths = [
        f"spec.{path}.externalEntitySelector"
        for path, subject in policy_subjects(policy.spec)
        if "externalEntitySelector" in subject
    ]
    entities = snapshot.all(where, ExternalEntity) if paths else ()
    if paths and all(entity.spec.external_node in ("", NO_NODE) for entity in entities):
        yield (
            f"{paths[0]} applies it to machines, and none of them has an ExternalNode: nobody "
            "enforces it there; run Antrea's agent on them, or apply it to what talks to them"
        )


OBJECTS = ObjectsView(
    "policy-objects",
    (
        ObjectRule(AntreaNetworkPolicy, _check_policy),
        ObjectRule(AntreaClusterNetworkPolicy, _check_policy),
    ),
    reads=tuple(Watch(Role.LOCAL, kind) for kind in (Group, ClusterGroup, Service, ExternalEntity)),
)
"""Federated policies that do not do what their author may expect."""
