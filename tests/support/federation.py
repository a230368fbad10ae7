"""A federation in a scenario: claims, accounts, Secrets and Federations, made by hand."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec

from hanse.features.admission.configuration import NAME as WEBHOOKS
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig
from hanse.kube.errors import AlreadyExists, Conflict, NotFound
from hanse.kube.transport import Request
from hanse.model.crds import crd_of, placeholder_crd
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    CLUSTER_SET,
    SUPERVISOR,
    SYSTEM,
    ClusterClaim,
    Federation,
    FederationSpec,
    Member,
)
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId, K, Meta, Object
from tests.support.agent_accounts import supervisor_account
from tests.support.scenario import Check, Scenario
from tests.support.service_accounts import Account, grant

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
NAME = "league"
TOKEN_LIFETIME = timedelta(hours=24)


class FederationScenario:
    """A federation of all clusters of a scenario.

    Children do not reach supervisors. The caller starts the agents.
    """

    def __init__(self, scenario: Scenario, supervisors: Sequence[ClusterId]) -> None:
        self.scenario = scenario
        self.members = scenario.names
        self.supervisors = tuple(supervisors)
        self.children = tuple(name for name in scenario.names if name not in supervisors)

    async def form(self) -> None:
        """Create the objects that an administrator creates, in every cluster."""
        for cluster in self.members:
            await self._prepare(cluster)
        for cluster in self.supervisors:
            for member in self.members:
                await create_or_patch(self.admin(cluster), await self.secret_for(member, cluster))
        for cluster in self.members:
            members = self.members if cluster in self.supervisors else ()
            await self.admin(cluster).create(self.federation(*members))
        for child in self.children:
            for supervisor in self.supervisors:
                self.scenario.network.cut(child, supervisor)

    async def clear(self) -> None:
        """Leave nothing behind for the next scenario."""
        for cluster in self.members:
            admin = self.admin(cluster)
            for path in (
                f"{ADMISSION}/validatingwebhookconfigurations/{WEBHOOKS}",
                f"{ADMISSION}/mutatingwebhookconfigurations/{WEBHOOKS}",
                "/apis/antreaplus.vmware-tanzu.com/v1alpha1/federations",
                "/apis/antreaplus.vmware-tanzu.com/v1alpha1/clusterclaims",
                f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases",
                f"/api/v1/namespaces/{SYSTEM}/secrets",
            ):
                with suppress(NotFound):
                    await admin.send(Request("DELETE", path))

    def admin(self, cluster: ClusterId) -> Client:
        return self.scenario.admin(cluster)

    # -- actions

    async def secret_for(
        self, member: ClusterId, supervisor: ClusterId, lifetime: timedelta = TOKEN_LIFETIME
    ) -> Secret:
        """A Secret with a fresh token of a supervisor's own account in a member."""
        account = supervisor_account(self.scenario.features(), member, supervisor)
        access = await self._granted(account, member, lifetime)
        data = {"token": access.identity.token.encode(), "ca.crt": access.endpoint.ca}
        return Secret(metadata=Meta(name=f"member-{member}", namespace=SYSTEM), data=data)

    def federation(self, *members: ClusterId) -> Federation:
        """The object that names these members."""
        named = tuple(self.member(cluster) for cluster in members)
        spec = FederationSpec(set_as_written=NAME, members=named)
        return Federation(metadata=Meta(name=NAME), spec=spec)

    def member(self, cluster: ClusterId) -> Member:
        """A member's entry."""
        return Member(
            id_as_written=cluster,
            server=self.scenario.testbed.endpoint(cluster).url,
            secret=f"member-{cluster}",
        )

    async def name_members(self, supervisor: ClusterId, *members: ClusterId) -> None:
        """Set the members of a supervisor's Federation."""
        wanted = [msgspec.to_builtins(self.member(cluster)) for cluster in members]
        await self.edit(supervisor, {"members": wanted})

    async def edit(self, cluster: ClusterId, spec: dict[str, Any]) -> None:
        """Change a Federation."""
        await self.admin(cluster).patch(Federation, NAME, "", {"spec": spec})

    async def claim(self, cluster: ClusterId, name: str, value: str) -> None:
        """Set a ClusterClaim of a cluster."""
        await create_or_patch(
            self.admin(cluster), ClusterClaim(metadata=Meta(name=name), value=value)
        )

    # -- checks

    async def federation_of(self, cluster: ClusterId) -> Federation:
        """The Federation of a cluster as it is now."""
        return await self.admin(cluster).read(Federation, NAME)

    def is_led(self, member: ClusterId, *by: ClusterId) -> Check[ClusterId]:
        """That one of these supervisors, or of all, holds a member's Lease; returns which."""

        async def check() -> ClusterId:
            lease = await self.admin(member).read(Lease, member, SYSTEM)
            leader = holder_cluster(lease.spec.holder_identity)
            assert leader in (by or self.supervisors), f"{member} is led by {leader or 'nobody'}"
            return leader

        return check

    def all_led(self) -> Check[dict[ClusterId, ClusterId]]:
        """That every member has a leader; returns which."""

        async def check() -> dict[ClusterId, ClusterId]:
            return {member: await self.is_led(member)() for member in self.members}

        return check

    def has_conditions(self, cluster: ClusterId, **conditions: str) -> Check[Federation]:
        """That a Federation has conditions with these reasons."""

        async def check() -> Federation:
            found = await self.federation_of(cluster)
            reasons = {c.type: c.reason for c in found.status.conditions}
            observed = {type_: reasons.get(type_) for type_ in conditions}
            assert observed == conditions, f"{cluster} has {found.status}"
            return found

        return check

    async def _prepare(self, cluster: ClusterId) -> None:
        await install_crds(self.scenario, cluster, ClusterClaim, Federation)
        await self.scenario.make_namespace(cluster, SYSTEM, keep=True)
        await self.claim(cluster, CLUSTER_ID, cluster)
        await self.claim(cluster, CLUSTER_SET, NAME)
        if cluster in self.supervisors:
            await self.claim(cluster, SUPERVISOR, "true")

    async def _granted(
        self, account: Account, cluster: ClusterId, lifetime: timedelta
    ) -> ClientConfig:
        endpoint = self.scenario.testbed.endpoint(cluster)
        transport = self.scenario.testbed.connect(cluster)
        try:
            return await grant(transport, ClientConfig(endpoint), account, lifetime)
        finally:
            await transport.close()


async def form_federation(
    scenario: Scenario, supervisors: Sequence[ClusterId] = ("lubeck", "hamburg")
) -> FederationScenario:
    """Make a federation of a scenario's clusters, deleted with it; start no agents."""
    membership = FederationScenario(scenario, supervisors)
    scenario.closing.push_async_callback(membership.clear)
    await membership.form()
    return membership


async def install_crds(scenario: Scenario, cluster: ClusterId, *kinds: type[Object]) -> None:
    """Install CRDs, ours or minimal third-party ones, unless they are there already."""
    admin = scenario.admin(cluster)
    for kind in kinds:
        if not await scenario.eventually(lambda kind=kind: _is_defined(admin, kind)):  # type: ignore[misc]
            with suppress(AlreadyExists, Conflict):
                await admin.send(Request("POST", CRDS, body=_encoded_crd(kind)))
        await scenario.eventually(lambda kind=kind: admin.list(kind))  # type: ignore[misc]


@cache
def _encoded_crd(kind: type[Object]) -> bytes:
    """The CRD of a kind of ours, or else a placeholder; encoded once for all scenarios."""
    return msgspec.json.encode(crd_of(kind) if hasattr(kind, "crd") else placeholder_crd(kind))


async def _is_defined(admin: Client, kind: type[Object]) -> bool:
    """Whether the CRD of a kind exists: a read is much cheaper than a refused create."""
    name = kind.kind.definition
    try:
        found = msgspec.json.decode((await admin.send(Request("GET", f"{CRDS}/{name}"))).body)
    except NotFound:
        return False
    assert "deletionTimestamp" not in found["metadata"], f"{name} is still terminating"
    return True


async def create_or_patch(admin: Client, obj: K) -> K:
    """Create an object, or patch the existing one to match."""
    try:
        return await admin.create(obj)
    except AlreadyExists:
        change = {
            name: value
            for name, value in msgspec.to_builtins(obj, str_keys=True).items()
            if name != "metadata"
        }
        meta = obj.metadata
        return await admin.patch(type(obj), meta.name, meta.namespace, change)
