"""Embedded clusters evaluate every admission policy that we generate."""

from ipaddress import ip_network

import pytest

from hanse import app
from hanse.features.networks.admission_policies import tenant_admission_policies
from hanse.features.networks.kube_ovn import SWITCH
from hanse.features.networks.names import NetworkName
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.pool_policies import (
    AddressPool,
    ProviderSubnets,
    address_pool_policy,
    subnet_policy,
)
from hanse.features.services import manifests
from hanse.features.statefulsets.admission_policies import (
    annotation_policy,
    autoscaler_policy,
    immutable_fields_policy,
    name_policy,
)
from hanse.model.objects import Wire, to_wire
from tinykube.policies import policy_errors

NOT_CARRIED: frozenset[str] = frozenset()
"""The names of our policies that embedded clusters refuse."""


_POOL = AddressPool(NetworkName("acme", "own"), (ip_network("10.92.0.0/27"),), ("shop",))
_SUBNETS = ProviderSubnets(NetworkName("acme", "ovn"), ("acme-ovn-front", "acme-ovn-back"))


def our_policies() -> list[Wire]:
    broker = (
        *manifests.broker(app.broker_access(), "b"),
        *annotation_policy("b"),
        *autoscaler_policy("b"),
        *immutable_fields_policy("b"),
        *name_policy("b"),
    )
    networks = (
        *tenant_admission_policies(NetworksOptions()),
        *address_pool_policy([_POOL]),
        *subnet_policy([_SUBNETS], SWITCH, NetworksOptions()),
    )
    everything = [*(one.wire for one in broker), *(to_wire(one) for one in networks)]
    return [one for one in everything if one["kind"] == "ValidatingAdmissionPolicy"]


@pytest.mark.parametrize("policy", our_policies(), ids=lambda one: str(one["metadata"]["name"]))
def test_a_policy_of_ours_is_carried(policy: Wire) -> None:
    errors = [error.text for error in policy_errors(policy)]

    assert bool(errors) == (policy["metadata"]["name"] in NOT_CARRIED), errors
