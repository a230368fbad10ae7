"""What can be wrong with federated policies, and the command that mends it; pure."""

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
    """Federated policies whose rules match nothing of another cluster, and policies meant to be."""
    for kind in ("acnps", "anps"):
        for policy in lists[kind]:
            meta = policy.get("metadata") or {}
            marks = meta.get("annotations") or {}
            parts = (kind[:-1], meta.get("namespace", ""), meta.get("name", ""))
            name = "/".join(part for part in parts if part)
            if told := ignored_annotation_warning(marks):
                yield Finding(lists.name, f"policy {name}: {told}", "write true, or take it away")
            if spelled_value(marks, "federated.anp") != "true":
                continue
            for told in peer_warnings(policy.get("spec") or {}):
                remedy = "name the federated Service, or take the policy out of the federation"
                yield Finding(lists.name, f"federated policy {name}: {told}", remedy)


def check_policies(clusters: Sequence[ClusterLists]) -> Iterator[Finding]:
    """Policies that are blocked, in quarantine, or of which versions crossed."""
    records = {lists.name: _records(lists) for lists in clusters}
    for one in list_policies({name: told for name, told in records.items() if told}):
        yield from _unsettled(one)


def _unsettled(one: PolicyView) -> Iterator[Finding]:
    for cluster, standing in sorted(one.members.items()):
        if not standing.needs_attention:
            continue
        told = standing.message or standing.reason
        remedy = "mend what the message names; it is tried again by itself"
        if standing.phase == "Quarantined":
            remedy = f"hanse policies resolve {one.label} --in {cluster} --keep, or --yield"
        yield Finding(cluster, f"policy {one.label} is {standing.phase.lower()}: {told}", remedy)
    for lost in one.overruled:
        yield Finding(
            one.origin,
            f"policy {one.label}: what {lost.cluster} did crossed with what {one.origin} did",
            f"hanse policies resolve {one.label} --keep, or --take {lost.cluster}",
        )


def _records(lists: ClusterLists) -> tuple[ConfigMap, ...]:
    return tuple(
        msgspec.convert(told, ConfigMap, strict=False) for told in lists["ledger"] if _is_ours(told)
    )


def _is_ours(told: Wire) -> bool:
    labels = (told.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(LEDGER_LABEL) == POLICIES)
