"""Actions of users on replicated policies, and checks of what each cluster has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import msgspec

from hanse.features.policies.content import FEDERATED, KINDS, Policy
from hanse.features.policies.ledger import (
    LEDGER_LABEL,
    POLICIES,
    PolicyRecord,
    decode_record,
    record_name,
)
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.transport import Request
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.core import ConfigMap, Event
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, Meta, Wire
from hanse.model.plan import Key
from tests.support.federation import FederationScenario, form_federation, install_crds
from tests.support.scenario import Check, Scenario

NAMES = {f"{kind.kind.plural}.{kind.kind.group}" for kind in KINDS.values()}


class PoliciesScenario:
    """A federation whose agents replicate policies."""

    def __init__(self, scenario: Scenario, membership: FederationScenario) -> None:
        self.scenario = scenario
        self.membership = membership
        self.names = scenario.names

    def acnp(self, priority: int = 5, name: str = "deny", *, plain: bool = False) -> Policy:
        """A policy of whole clusters, named after the scenario."""
        marks = {} if plain else {FEDERATED: "true"}
        meta = Meta(name=f"{self.scenario.namespace}-{name}", annotations=marks)
        return AntreaClusterNetworkPolicy(metadata=meta, spec={"priority": priority})

    def anp(self, priority: int = 5) -> Policy:
        """A policy of the scenario's namespace."""
        meta = Meta(name="deny", namespace=self.scenario.namespace, annotations={FEDERATED: "true"})
        return AntreaNetworkPolicy(metadata=meta, spec={"priority": priority})

    # -- actions

    async def create(self, cluster: ClusterId, policy: Policy) -> Policy:
        return await self.scenario.admin(cluster).create(policy)

    async def edit(self, cluster: ClusterId, policy: Policy, change: Wire) -> None:
        meta = policy.metadata
        await self.scenario.admin(cluster).patch(type(policy), meta.name, meta.namespace, change)

    async def set(self, cluster: ClusterId, policy: Policy, priority: int) -> None:
        await self.edit(cluster, policy, {"spec": {"priority": priority}})

    async def delete(self, cluster: ClusterId, policy: Policy) -> None:
        meta = policy.metadata
        await self.scenario.admin(cluster).delete(type(policy), meta.name, meta.namespace)

    async def delete_supervisor_bindings(self, cluster: ClusterId) -> None:
        """Delete the role bindings of the supervisors in a cluster."""
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        admin = self.scenario.admin(cluster)
        listed = msgspec.json.decode((await admin.send(Request("GET", path))).body)
        for binding in listed["items"]:
            if any(s.get("namespace") == SYSTEM for s in binding.get("subjects") or ()):
                name = binding["metadata"]["name"]
                await admin.send(Request("DELETE", f"{path}/{name}"))

    # -- checks

    async def find(self, cluster: ClusterId, policy: Policy) -> Policy | None:
        meta = policy.metadata
        try:
            return await self.scenario.admin(cluster).read(type(policy), meta.name, meta.namespace)
        except NotFound:
            return None

    async def priorities(self, policy: Policy) -> dict[ClusterId, Any]:
        found = {name: await self.find(name, policy) for name in self.names}
        return {n: p.spec.get("priority") if p is not None else None for n, p in found.items()}

    def all_have(self, policy: Policy, priority: int | None) -> Check[None]:
        """That a policy has this priority in every cluster, and records say so; None: no cluster.

        What users do to a policy that is not recorded yet counts as if it had never arrived.
        """

        async def check() -> None:
            found = await self.priorities(policy)
            assert found == dict.fromkeys(self.names, priority), found
            for cluster in self.names if priority is not None else ():
                here = (await self.record(cluster, policy)).here
                assert here.phase != "Pending", f"{cluster}: {here}"

        return check

    def has_phase(
        self, cluster: ClusterId, policy: Policy, phase: str, reason: str = ""
    ) -> Check[None]:
        """That a cluster's ledger has this phase and reason."""

        async def check() -> None:
            here = (await self.record(cluster, policy)).here
            assert (here.phase, here.reason) == (phase, reason), here

        return check

    async def record(self, cluster: ClusterId, policy: Policy) -> PolicyRecord:
        topic = next(t for t, kind in KINDS.items() if type(policy) is kind)
        key = Key(topic, policy.metadata.name, policy.metadata.namespace)
        found = await self.scenario.admin(cluster).read(ConfigMap, record_name(key), SYSTEM)
        record = decode_record(found)
        assert isinstance(record, PolicyRecord), record
        return record

    def has_event(self, cluster: ClusterId, policy: Policy, reason: str) -> Check[None]:
        """That an event about a policy gives this reason."""

        async def check() -> None:
            events = (await self.scenario.admin(cluster).list(Event)).objects
            about = [e for e in events if e.involved_object.name == policy.metadata.name]
            assert reason in {e.reason for e in about}, about

        return check

    # -- leaving nothing behind

    async def clear(self) -> None:
        for cluster in self.names:
            admin = self.scenario.admin(cluster)
            for kind in KINDS.values():
                for policy in (await admin.list(kind)).objects:
                    meta = policy.metadata
                    with suppress(NotFound):
                        await admin.delete(kind, meta.name, meta.namespace)
            selected = f"{LEDGER_LABEL}={POLICIES}"
            for ledger in (await admin.list(ConfigMap, namespace=SYSTEM, labels=selected)).objects:
                with suppress(NotFound):
                    await admin.delete(ConfigMap, ledger.metadata.name, SYSTEM)


@asynccontextmanager
async def policies_scenario(scenario: Scenario) -> AsyncIterator[PoliciesScenario]:
    """A federation of all clusters, led and empty of policies."""
    for cluster in scenario.names:
        await install_crds(scenario, cluster, *KINDS.values())
    membership = await form_federation(scenario)
    policies = PoliciesScenario(scenario, membership)
    await policies.clear()
    await scenario.start_agents()
    await scenario.eventually(membership.all_led())
    try:
        yield policies
    finally:
        for name in list(scenario.agents):
            await scenario.kill_agent(name)
        await policies.clear()


class RandomScript:
    """Random actions and faults; keeps the last action in each cluster."""

    def __init__(self, policies: PoliciesScenario, seed: int) -> None:
        self.policies = policies
        self.random = Random(seed)
        self.base: int | None = None
        self.last: dict[ClusterId, int | None] = {}
        self.written = 0
        self.story: list[str] = []

    async def step(self) -> None:
        """One random action of a user, and maybe a fault."""
        action = self.random.choice((self._create, self._edit, self._edit, self._delete))
        fault = self.random.choice((None, None, self._cut, self._heal, self._restart))
        if fault is not None:
            await fault()
        await action(self.random.choice(self.policies.names))

    def outcomes(self) -> set[int | None]:
        """The possible results: the last action in any cluster."""
        return set(self.last.values()) or {self.base}

    def agreed(self, what: int | None) -> None:
        """Record that all clusters agree."""
        self.base, self.last = what, {}
        self.story.append(f"all agree on {what}")

    async def _create(self, where: ClusterId) -> None:
        self.written += 1
        with suppress(KubeError):
            await self.policies.create(where, self.policies.acnp(self.written))
            self._done(where, self.written)

    async def _edit(self, where: ClusterId) -> None:
        self.written += 1
        with suppress(KubeError):
            await self.policies.set(where, self.policies.acnp(), self.written)
            self._done(where, self.written)

    async def _delete(self, where: ClusterId) -> None:
        with suppress(KubeError):
            await self.policies.delete(where, self.policies.acnp())
            self._done(where, None)

    def _done(self, where: ClusterId, what: int | None) -> None:
        self.last[where] = what
        self.story.append(f"{where}: {what}")

    async def _cut(self) -> None:
        source = self.random.choice(self.policies.membership.supervisors)
        target = self.random.choice(self.policies.names)
        self.policies.scenario.network.cut(source, target)
        self.story.append(f"{source} is cut off from {target}")

    async def _heal(self) -> None:
        for source in self.policies.membership.supervisors:
            for target in self.policies.names:
                self.policies.scenario.network.heal(source, target)
        self.story.append("all heals")

    async def _restart(self) -> None:
        name = self.random.choice(self.policies.membership.supervisors)
        await self.policies.scenario.kill_agent(name)
        await self.policies.scenario.start_agent(name)
        self.story.append(f"the agent of {name} starts anew")

    async def end(self) -> None:
        """Heal all links."""
        await self._heal()
