"""Policy ledgers of all clusters, and decisions that resolve conflicts between them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, ReadFailure, connect, read_clusters
from hanse.cli.errors import CommandFailed, InputError
from hanse.features.policies.content import KINDS, Policy
from hanse.features.policies.ledger import LEDGER_LABEL, POLICIES, RESOLVE_ANNOTATION
from hanse.features.policies.listing import PolicyView, list_shown_policies
from hanse.features.policies.observation import KEEP, YIELD
from hanse.kube.client import Client
from hanse.kube.optional_reads import read_or_none
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from hanse.model.plan import Key

POLL_INTERVAL = 0.2


class Ledgers(Struct, frozen=True):
    """The ledger ConfigMaps of every member that answers, and the errors of the others."""

    records: dict[ClusterId, tuple[ConfigMap, ...]]
    failures: dict[ClusterId, str]

    @property
    def policies(self) -> list[PolicyView]:
        """The policies in the ledgers, sorted, each with its state in every cluster that was read.

        One that was deleted is listed only if it needs attention.
        """
        return list_shown_policies(self.records)

    @property
    def needs_attention(self) -> bool:
        """Whether a cluster could not be read, or a policy needs a decision or is blocked."""
        return bool(self.failures) or any(one.needs_attention for one in self.policies)


class Decision(Struct, frozen=True):
    """A user's choice about one policy, and how many seconds to wait for its effect."""

    key: Key
    cluster: ClusterId
    choice: str
    """`keep`, `yield`, or the cluster whose overruled version or deletion counts."""
    timeout: int


async def read_ledgers(clusters: Sequence[ClusterAccess]) -> Ledgers:
    """List the ledger ConfigMaps of every cluster; clusters that have none are left out.

    Clusters are called by their contexts; one that cannot be read is in `failures`.
    """
    records: dict[ClusterId, tuple[ConfigMap, ...]] = {}
    failures: dict[ClusterId, str] = {}
    results = await read_clusters(clusters, _read_records)
    for cluster, result in zip(clusters, results, strict=True):
        if isinstance(result, ReadFailure):
            failures[cluster.name] = result.message("it does not answer")
        elif result:
            records[cluster.name] = result
    return Ledgers(records, failures)


def json_document(ledgers: Ledgers) -> dict[str, Any]:
    """Policies, and under `silent` the clusters not read with the reason; to be encoded."""
    return {"policies": ledgers.policies, "silent": ledgers.failures}


async def apply_decision(clusters: Sequence[ClusterAccess], decision: Decision) -> str:
    """Annotate the policy in one cluster, and wait until its leader has removed the annotation.

    Returns a line for the user. Raises `InputError` for an unknown policy or context, or if there
    is nothing to decide, and `CommandFailed` if the policy is applied nowhere yet, or after the
    time-out, when the annotation stays.
    """
    ledgers = await read_ledgers(clusters)
    policy = next((p for p in ledgers.policies if _has_key(p, decision.key)), None)
    key = decision.key
    label = "/".join(part for part in (key.topic, key.namespace, key.name) if part)
    if policy is None:
        raise InputError(f"no ledger knows {label}; `hanse policies` shows those that are known")
    cluster = _deciding_cluster(policy, decision)
    access = next((c for c in clusters if c.name == cluster), None)
    if access is None:
        raise InputError(f"no context is called {cluster}; see `kubectl config get-contexts`")
    kind = KINDS[decision.key.topic]
    async with connect(access) as client:
        await _annotate_resolution(client, kind, decision)
        await _wait_until_resolved(client, kind, decision, cluster)
    return f"{label}: {cluster} has carried it out; `hanse policies` shows the result"


def _deciding_cluster(policy: PolicyView, decision: Decision) -> ClusterId:
    """The cluster where the policy is to be annotated with the decision.

    For `keep` and `yield` while the policy is in quarantine: the cluster of --in or the only one
    where it is; else the cluster of --in, or the first by name, that has applied it. Raises
    `InputError` if --in or the choice does not fit the policy's state, or there is nothing to
    decide; `CommandFailed` if the policy is applied nowhere yet.
    """
    waiting = sorted(c for c, m in policy.members.items() if m.phase == "Quarantined")
    if decision.choice in (KEEP, YIELD) and waiting:
        if decision.cluster in waiting or (not decision.cluster and len(waiting) == 1):
            return decision.cluster or waiting[0]
        raise InputError(f"{policy.label} waits in {', '.join(waiting)}; name one with --in")
    if decision.choice == YIELD:
        raise InputError(f"{policy.label} is in quarantine nowhere, so that nothing can give way")
    if not policy.overruled:
        raise InputError(
            f"{policy.label} is neither in quarantine nor in conflict; nothing to decide"
        )
    losers = sorted(one.cluster for one in policy.overruled)
    if decision.choice != KEEP and decision.choice not in losers:
        kept = ", ".join(losers) or "none"
        raise InputError(f"--take {decision.choice}: changes are kept of {kept}")
    applied = sorted(c for c, m in policy.members.items() if m.phase == "Applied")
    if decision.cluster and decision.cluster not in applied:
        raise InputError(f"{policy.label} is not applied in {decision.cluster}; leave --in out")
    if not applied:
        raise CommandFailed(f"{policy.label} is applied nowhere yet; try again later")
    return decision.cluster or applied[0]


async def _annotate_resolution(client: Client, kind: type[Policy], decision: Decision) -> None:
    """Patch the policy with the annotation that tells the cluster's leader the user's choice."""
    change = {"metadata": {"annotations": {RESOLVE_ANNOTATION: decision.choice}}}
    await client.patch(kind, decision.key.name, decision.key.namespace, change)


async def _wait_until_resolved(
    client: Client, kind: type[Policy], decision: Decision, cluster: ClusterId
) -> None:
    """Poll until the annotation or the policy is gone; `CommandFailed` after the time-out."""
    try:
        async with asyncio.timeout(decision.timeout):
            while await _is_annotated(client, kind, decision.key):  # noqa: ASYNC110 - an annotation of another process
                await asyncio.sleep(POLL_INTERVAL)
    except TimeoutError:
        raise CommandFailed(
            f"the leader of {cluster} has not acted within {decision.timeout} s; the decision "
            f"stands as the annotation {RESOLVE_ANNOTATION}, see `hanse doctor`"
        ) from None


async def _is_annotated(client: Client, kind: type[Policy], key: Key) -> bool:
    """Whether the policy still has the annotation; not if the policy is gone."""
    found = await read_or_none(client, kind, key.name, key.namespace)
    return found is not None and RESOLVE_ANNOTATION in found.metadata.annotations


def _has_key(policy: PolicyView, key: Key) -> bool:
    """Whether a policy's kind, namespace and name are those of a key, its kind the topic."""
    return (policy.kind, policy.namespace, policy.name) == (key.topic, key.namespace, key.name)


async def _read_records(_: ClusterAccess, client: Client) -> tuple[ConfigMap, ...]:
    """List the ConfigMaps of the policy ledger in the namespace that Federations use."""
    labels = f"{LEDGER_LABEL}={POLICIES}"
    return (await client.list(ConfigMap, namespace=SYSTEM, labels=labels)).objects
