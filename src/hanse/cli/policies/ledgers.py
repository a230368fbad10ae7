"""The ledgers of all clusters, and a person's word about one policy."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, at_each
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.reaching import reached
from hanse.features.policies.content import KINDS, Policy
from hanse.features.policies.ledger import LEDGER_LABEL, POLICIES, RESOLVE_ANNOTATION
from hanse.features.policies.observation import KEEP, YIELD
from hanse.features.policies.view import PolicyView, list_policies
from hanse.kube.client import Client
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from hanse.model.plan import Key

PATIENCE = 10.0
LOOK_AGAIN = 0.2


class Ledgers(Struct, frozen=True):
    """The records of every cluster that answers and is a member, and who does not answer."""

    records: dict[ClusterId, tuple[ConfigMap, ...]]
    silent: dict[ClusterId, str]

    @property
    def policies(self) -> list[PolicyView]:
        return list_policies(self.records)

    @property
    def needs_attention(self) -> bool:
        return bool(self.silent) or any(one.needs_attention for one in self.policies)


class Decision(Struct, frozen=True):
    """What a person said about a policy, and for how long they wait."""

    key: Key
    cluster: ClusterId
    word: str
    """`keep`, `yield`, or the cluster whose overruled version counts."""
    timeout: int


async def read_ledgers(ways: Sequence[ClusterAccess]) -> Ledgers:
    """Read every cluster; one that does not answer hides no other."""
    found = await at_each(ways, _records)
    records = {w.name: r for w, r in zip(ways, found, strict=True) if isinstance(r, tuple) and r}
    silent = {w.name: r for w, r in zip(ways, found, strict=True) if isinstance(r, str)}
    return Ledgers(records, silent)


def document(ledgers: Ledgers) -> dict[str, Any]:
    """The same for programs."""
    return {"policies": ledgers.policies, "silent": ledgers.silent}


async def decide(ways: Sequence[ClusterAccess], decision: Decision) -> str:
    """Write a person's word down, and wait until the leader has carried it out."""
    ledgers = await read_ledgers(ways)
    seen = next((p for p in ledgers.policies if _is_meant(p, decision.key)), None)
    key = decision.key
    label = "/".join(part for part in (key.topic, key.namespace, key.name) if part)
    if seen is None:
        raise InputError(f"no ledger knows {label}; `hanse policies` shows those that are known")
    cluster = _cluster_decided(seen, decision)
    way = next((w for w in ways if w.name == cluster), None)
    if way is None:
        raise InputError(f"no context is called {cluster}; see `kubectl config get-contexts`")
    kind = KINDS[decision.key.topic]
    async with reached(way) as client:
        await _write(client, kind, decision)
        await _carried_out(client, kind, decision, cluster)
    return f"{label}: {cluster} has carried it out; `hanse policies` shows the result"


def _cluster_decided(seen: PolicyView, decision: Decision) -> ClusterId:
    """The cluster whose leader is to act; raises `InputError` where there is nothing to decide."""
    waiting = sorted(c for c, m in seen.members.items() if m.phase == "Quarantined")
    if decision.word in (KEEP, YIELD) and waiting:
        if decision.cluster in waiting or (not decision.cluster and len(waiting) == 1):
            return decision.cluster or waiting[0]
        raise InputError(f"{seen.label} waits in {', '.join(waiting)}; name one with --in")
    if decision.word == YIELD:
        raise InputError(f"{seen.label} is in quarantine nowhere, so that nothing can give way")
    if not seen.overruled:
        raise InputError(
            f"{seen.label} is neither in quarantine nor in conflict; nothing to decide"
        )
    losers = sorted(one.cluster for one in seen.overruled if one.state == "Present")
    if decision.word != KEEP and decision.word not in losers:
        kept = ", ".join(losers) or "none"
        raise InputError(f"--take {decision.word}: versions are kept of {kept}")
    applied = sorted(c for c, m in seen.members.items() if m.phase == "Applied")
    if decision.cluster and decision.cluster not in applied:
        raise InputError(f"{seen.label} is not applied in {decision.cluster}; leave --in out")
    if not applied:
        raise CommandFailed(f"{seen.label} is applied nowhere yet; try again later")
    return decision.cluster or applied[0]


async def _write(client: Client, kind: type[Policy], decision: Decision) -> None:
    change = {"metadata": {"annotations": {RESOLVE_ANNOTATION: decision.word}}}
    await client.patch(kind, decision.key.name, decision.key.namespace, change)


async def _carried_out(
    client: Client, kind: type[Policy], decision: Decision, cluster: ClusterId
) -> None:
    try:
        async with asyncio.timeout(decision.timeout):
            while await _is_waiting(client, kind, decision.key):  # noqa: ASYNC110 - asked from outside
                await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        raise CommandFailed(
            f"the leader of {cluster} has not acted within {decision.timeout} s; the decision "
            f"stands as the annotation {RESOLVE_ANNOTATION}, see `hanse doctor`"
        ) from None


async def _is_waiting(client: Client, kind: type[Policy], key: Key) -> bool:
    try:
        found = await client.read(kind, key.name, key.namespace)
    except NotFound:
        return False
    return RESOLVE_ANNOTATION in found.metadata.annotations


def _is_meant(seen: PolicyView, key: Key) -> bool:
    return (seen.kind, seen.namespace, seen.name) == (key.topic, key.namespace, key.name)


async def _records(way: ClusterAccess) -> tuple[ConfigMap, ...] | str:
    client = Client(HttpTransport(way.credentials))
    try:
        async with asyncio.timeout(PATIENCE):
            listed = await client.list(
                ConfigMap, namespace=SYSTEM, labels=f"{LEDGER_LABEL}={POLICIES}"
            )
            return tuple(listed.objects)
    except TimeoutError:
        return "it does not answer"
    except KubeError as error:
        return str(error)
    finally:
        await client.close()
