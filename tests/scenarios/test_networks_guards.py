"""ValidatingAdmissionPolicies restrict tenants while no agent runs."""

import pytest

from hanse.features.networks.admission_policies import POLICIES, SUBNETS
from hanse.features.networks.names import TENANT
from hanse.model.kinds.admission import ValidatingAdmissionPolicyBinding
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.networking import NetworkPolicy, ServiceCIDR
from hanse.model.ownership import OWNER
from tests.scenarios.networks import NetworksScenario, made, refusal

RANGE = "10.94.0.0/27"
ALWAYS = [policy for policy in POLICIES if policy != SUBNETS]
"""The policies of every provider; one is only for those with subnets."""


@pytest.mark.needs("vap")
async def test_what_the_api_server_refuses_by_itself(tenancy: NetworksScenario) -> None:
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    name = await tenancy.create_network(acme, "own", service={"cidrs": ["10.92.0.0/27"]})
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    anna = await tenancy.tenant_client()

    async def guards() -> None:
        grab = made(Namespace, f"{acme}-grab", labels={TENANT: acme})
        message = await refusal(anna.create(grab, dry_run=True))
        assert "only administrators say whose a namespace is" in message
        deny = await refusal(anna.delete(NetworkPolicy, "hanse-deny", space))
        assert "is kept by Hanse" in deny

    await tenancy.scenario.eventually(guards)


@pytest.mark.needs("address-admission")
async def test_the_api_server_keeps_the_addresses_of_a_network(tenancy: NetworksScenario) -> None:
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    name = await tenancy.create_network(acme, "own", service={"cidrs": ["10.92.0.0/27"]})
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    anna = await tenancy.tenant_client()
    spec = {"ports": [{"port": 80}], "clusterIP": "10.92.0.20"}

    async def guards() -> None:
        """An attempt that comes before the policy takes effect gives the address back."""
        stolen = made(Service, "stolen", tenancy.scenario.namespace, spec=spec)
        try:
            message = await refusal(anna.create(stolen))
        except AssertionError:
            await tenancy.admin.delete(Service, "stolen", tenancy.scenario.namespace)
            raise
        assert f"is of network {name}" in message

    await tenancy.scenario.eventually(guards)
    await anna.create(made(Service, "mine", space, spec=spec))


async def test_a_dry_run_of_a_service_needs_no_address(guarded: NetworksScenario) -> None:
    acme = await guarded.create_tenant()
    space = await guarded.create_namespace(acme)
    name = await guarded.create_network(acme, "own", service={"cidrs": ["10.95.0.0/27"]})
    await guarded.scenario.eventually(guarded.has_phase(name, "Ready"))

    async def only_ours() -> None:
        """A ServiceCIDR that is being deleted makes API servers refuse any dry run."""
        cidrs = (await guarded.admin.list(ServiceCIDR)).objects
        assert [c.metadata.name for c in cidrs if c.metadata.deletion_timestamp] == []

    await guarded.scenario.eventually(only_ours)
    for namespace in (guarded.scenario.namespace, space):
        trial = made(Service, "trial", namespace, spec={"ports": [{"port": 80}]})
        for _ in range(10):  # an API server compares with a range that it chooses at random
            await guarded.admin.create(trial, dry_run=True)


@pytest.mark.needs("vap")
async def test_what_a_network_is_made_of_is_restored_if_it_is_edited(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    await tenancy.create_namespace(acme)
    name = await tenancy.create_network(acme, "own", service={"cidrs": [RANGE]})
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    admin, system = tenancy.admin, f"{acme}-kube-system"

    async def parts() -> dict[str, object]:
        bindings = [await admin.read(ValidatingAdmissionPolicyBinding, p) for p in ALWAYS]
        cidrs = (await admin.list(ServiceCIDR)).objects
        servers = (await admin.list(Deployment, namespace=system)).objects
        return {
            **{one.name: one.spec for one in bindings},
            **{one.name: one.metadata.labels for one in cidrs if RANGE in one.spec.cidrs},
            **{one.name: one.spec for one in servers},
        }

    before = await parts()
    for policy in ALWAYS:
        weak = {"spec": {"validationActions": ["Audit"]}}
        await admin.patch(ValidatingAdmissionPolicyBinding, policy, "", weak)
    for cidr in (await admin.list(ServiceCIDR)).objects:
        if RANGE in cidr.spec.cidrs:
            labels: dict[str, str | None] = {OWNER: None}
            await admin.patch(ServiceCIDR, cidr.name, "", {"metadata": {"labels": labels}})
    for server in (await admin.list(Deployment, namespace=system)).objects:
        none = {"spec": {"replicas": 0}}
        await admin.patch(Deployment, server.name, system, none)

    async def restored() -> None:
        assert await parts() == before

    await tenancy.scenario.eventually(restored)
