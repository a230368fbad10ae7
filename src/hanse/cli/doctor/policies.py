"""Findings about federated policies; pure."""

from collections.abc import Iterator, Sequence

import msgspec

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import ClusterLists
from hanse.features.policies.ledger import LEDGER_LABEL, POLICIES
from hanse.features.policies.view import PolicyView, list_policies
from hanse.features.policies.webhooks import ignored_annotation_warning, peer_warnings
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import spelled_value
from hanse.model.objects import Wire


def check_policy_peers(lists: ClusterLists) -> Iterator[Finding]:
    """Federated policies with peers that match no other cluster, or a misspelt annotation."""
    for kind in ("acnps", "anps"):
        for policy in lists[kind]:
            meta = policy.get("metadata") or {}
            annotations = meta.get("annotations") or {}
            parts = (kind[:-1], meta.get("namespace", ""), meta.get("name", ""))
            name = "/".join(part for part in parts if part)
            if message := ignored_annotation_warning(annotations):
                yield Finding(
                    lists.name, f"policy {name}: {message}", "write true, or take it away"
                )
            if spelled_value(annotations, "federated.anp") != "true":
                continue
            for message in peer_warnings(policy.get("spec") or {}):
                remedy = "name the federated Service, or take the policy out of the federation"
                yield Finding(lists.name, f"federated policy {name}: {message}", remedy)


def check_policies(clusters: Sequence[ClusterLists]) -> Iterator[Finding]:
    """Policies that are blocked, in quarantine, or in conflict."""
    records = {lists.name: _ledger_records(lists) for lists in clusters}
    for policy in list_policies({name: ledger for name, ledger in records.items() if ledger}):
        yield from _policy_findings(policy)


def _policy_findings(policy: PolicyView) -> Iterator[Finding]:
    """A finding per member that needs attention and per cluster whose change was overruled."""
    for cluster, member in sorted(policy.members.items()):
        if not member.needs_attention:
            continue
        message = member.message or member.reason
        remedy = "mend what the message names; it is tried again by itself"
        if member.phase == "Quarantined":
            remedy = f"hanse policies resolve {policy.label} --in {cluster} --keep, or --yield"
        yield Finding(
            cluster, f"policy {policy.label} is {member.phase.lower()}: {message}", remedy
        )
    for lost in policy.overruled:
        yield Finding(
            policy.origin,
            f"policy {policy.label}: what {lost.cluster} did crossed with what {policy.origin} did",
            f"hanse policies resolve {policy.label} --keep, or --take {lost.cluster}",
        )


def _ledger_records(lists: ClusterLists) -> tuple[ConfigMap, ...]:
    return tuple(
        msgspec.convert(config_map, ConfigMap, strict=False)
        for config_map in lists["ledger"]
        if _is_ledger(config_map)
    )


def _is_ledger(config_map: Wire) -> bool:
    labels = (config_map.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(LEDGER_LABEL) == POLICIES)
