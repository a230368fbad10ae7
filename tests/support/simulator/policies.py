"""Replicated policies: written in any member, the same in all of them."""

from collections.abc import AsyncIterator, Sequence

from hanse.features.policies.content import FEDERATED, KINDS
from hanse.features.policies.options import PolicyOptions
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy
from hanse.model.objects import ClusterId, Meta
from tests.support.federation import install_crds
from tests.support.simulator.fleet import Fleet, find
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import CLUSTERS, step

NAMES = ("deny", "allow")
AGREED = 120.0
"""Seconds without a disturbance after which what all members have counts as agreed."""
RETENTION = PolicyOptions().retention.total_seconds()
COLLECTED = RETENTION + 60
"""Seconds after which every ledger has collected a deletion, once all is well."""
Outcome = int | None
"""The priority of a policy; None: there is none."""


class Acts:
    """What users did to one policy since all members agreed last."""

    def __init__(self) -> None:
        self.agreed: Outcome = None
        self.last: dict[ClusterId, Outcome] = {}
        self.ever: set[Outcome] = {None}
        self.at = 0.0

    def allowed(self, *, restored: bool) -> set[Outcome]:
        """The outcomes that are right: somebody's last act, or what was agreed."""
        if restored:
            return {*self.ever, None}
        return set(self.last.values()) or {self.agreed}

    def agree(self, outcome: Outcome) -> None:
        self.agreed, self.last = outcome, {}


class Policies:
    """Users write policies in any member; a plain one is nobody else's."""

    name = "policies"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.acts = {name: Acts() for name in NAMES}
        self._deleted_at: float | None = None
        self.collected_at = 0.0
        """When deletions are collected that may be due by now."""
        self._priority = 0

    async def open(self) -> None:
        for cluster in self._fleet.names:
            await install_crds(self._fleet, cluster, *KINDS.values())

    async def heal(self) -> None:
        """Nothing: what users do stands. A fleet that may collect deletions soon settles later."""
        fleet, deleted = self._fleet, self._deleted_at
        if deleted is not None and (fleet.clocks_jumped or fleet.now - deleted > RETENTION / 2):
            self.collected_at = fleet.now + COLLECTED

    def laws(self) -> Sequence[Law]:
        return (PoliciesAgree(self._fleet, self), PoliciesStay(self._fleet, self))

    @step(5, opening=True, cluster=CLUSTERS, name=NAMES)
    async def create(self, cluster: ClusterId, name: str) -> None:
        self._priority += 1
        meta = Meta(name=name, annotations={FEDERATED: "true"})
        spec = {"priority": self._priority}
        policy = AntreaClusterNetworkPolicy(metadata=meta, spec=spec)
        await self._fleet.hand(cluster).create(policy)
        self._record(cluster, name, self._priority)

    @step(5, cluster=CLUSTERS, name=NAMES)
    async def edit(self, cluster: ClusterId, name: str) -> None:
        if (cluster, AntreaClusterNetworkPolicy, "", name) in self._fleet.users:
            return
        self._priority += 1
        change = {"spec": {"priority": self._priority}}
        await self._fleet.hand(cluster).patch(AntreaClusterNetworkPolicy, name, "", change)
        self._record(cluster, name, self._priority)

    @step(4, cluster=CLUSTERS, name=NAMES)
    async def delete(self, cluster: ClusterId, name: str) -> None:
        if (cluster, AntreaClusterNetworkPolicy, "", name) not in self._fleet.users:
            await self._fleet.hand(cluster).delete(AntreaClusterNetworkPolicy, name, "")
            self._record(cluster, name, None)
            if self._deleted_at is None:
                self._deleted_at = self._fleet.now

    @step(1, cluster=CLUSTERS, name=NAMES)
    async def own_policy(self, cluster: ClusterId, name: str) -> None:
        """A person makes a policy of their own, by the name of a replicated one."""
        policy = AntreaClusterNetworkPolicy(metadata=Meta(name=name), spec={"priority": 0.5})
        await self._fleet.admin(cluster).create(policy)

    def _record(self, cluster: ClusterId, name: str, outcome: Outcome) -> None:
        acts = self.acts[name]
        acts.last[cluster] = outcome
        acts.ever.add(outcome)
        acts.at = self._fleet.now

    async def found(self, name: str) -> dict[ClusterId, Outcome]:
        """The policy in each member; members in which a person has the name are left out."""
        place = AntreaClusterNetworkPolicy
        found: dict[ClusterId, Outcome] = {}
        for cluster in self._fleet.names:
            if (cluster, place, "", name) not in self._fleet.users:
                policy = find(await self._fleet.objects(cluster, place), name)
                found[cluster] = policy["spec"].get("priority") if policy is not None else None
        return found


class PoliciesAgree(Law):
    """All members end with one policy."""

    name = "policies-agree"
    sentence = (
        "All members come to have the same policy, which is the last word of a person in one of "
        "them; what was deleted everywhere does not come back."
    )

    def __init__(self, fleet: Fleet, policies: Policies) -> None:
        super().__init__(fleet)
        self._policies = policies

    async def observe(self) -> AsyncIterator[str]:
        for name, acts in self._policies.acts.items():
            calm = max(acts.at, self.fleet.all_calm_since())
            found = set((await self._policies.found(name)).values())
            if self.fleet.now - calm > AGREED and len(found) == 1:
                outcome = found.pop()
                if outcome not in acts.allowed(restored=bool(self.fleet.restored_at)):
                    yield f"{name} is {outcome}, after {acts.last} and {acts.agreed}"
                acts.agree(outcome)

    async def at_rest(self) -> AsyncIterator[str]:
        if self.fleet.now < self._policies.collected_at:
            yield "deletions are not collected yet"
        for name, acts in self._policies.acts.items():
            found = await self._policies.found(name)
            if len(set(found.values())) > 1:
                yield f"members disagree about {name}: {found}"
            allowed = acts.allowed(restored=bool(self.fleet.restored_at))
            if found and not set(found.values()) <= allowed:
                yield f"{name} is {found}, after {acts.last} and {acts.agreed}"


class PoliciesStay(Law):
    """No policy goes without a person's word."""

    name = "policies-stay"
    sentence = "A policy that nobody deleted is never absent from a member that had it."

    def __init__(self, fleet: Fleet, policies: Policies) -> None:
        super().__init__(fleet)
        self._policies = policies
        self._had: dict[tuple[ClusterId, str], float] = {}
        """The policies that a member had, with the time of its last restore."""

    async def observe(self) -> AsyncIterator[str]:
        for name, acts in self._policies.acts.items():
            deleted = None in acts.last.values()
            for cluster, outcome in (await self._policies.found(name)).items():
                key, restored = (cluster, name), self.fleet.restored_at.get(cluster, 0.0)
                if outcome is not None:
                    self._had[key] = restored
                elif deleted or acts.agreed is None:
                    self._had.pop(key, None)
                elif self._had.get(key) == restored:
                    yield f"{cluster} lost {name}, which nobody deleted"
