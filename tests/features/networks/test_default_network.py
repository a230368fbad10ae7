"""Tenants, and the template of their default network: valid ones, and what is wrong with others."""

import pytest

from hanse.features.networks.options import BUILT_IN_TEMPLATE
from hanse.features.networks.tenants import InvalidTemplate, default_network
from hanse.model.facts import WriteOutcome, WriteResult
from hanse.model.kinds.core import Namespace
from hanse.model.objects import ClusterObjectRef, ObjectRef
from hanse.model.plan import Key
from tests.features.networks.builders import FEATURE, HERE, cluster_snapshot, tenant
from tinykube.virtual_time import EPOCH

SEED = """
{
    "metadata": {"name": "default", "finalizers": ["arktos.futurewei.com/network"]},
    "spec": {"type": "vpc", "vpcID": "{{.}}-default-network"}
}
"""


@pytest.mark.parametrize("result", ["Foreign", "Refused", "Forbidden"])
def test_a_tenant_whose_namespace_cannot_be_created_is_not_ready(result: WriteResult) -> None:
    target = ClusterObjectRef(HERE, ObjectRef(Namespace.kind, "bolt-default"))
    outcome = WriteOutcome(target, result, "nobody may create namespaces", EPOCH)

    plan = FEATURE.plan(Key("tenant", "bolt"), cluster_snapshot(tenant("bolt"), facts=[outcome]))

    (ready,) = plan.patches[0].change["status"]["conditions"]
    assert (ready["status"], ready["message"]) == ("False", "nobody may create namespaces")


def test_the_seeds_template_works_unchanged() -> None:
    network = default_network(SEED, "acme")

    assert network is not None
    assert network.metadata.name == "acme.default"
    assert network.spec.tenant == "acme"
    assert (network.spec.type, network.spec.vpc_id) == ("vpc", "acme-default-network")
    assert network.metadata.finalizers == ("arktos.futurewei.com/network",)


def test_yaml_will_do_and_the_built_in_one_is_flat() -> None:
    network = default_network("metadata: {name: main}\nspec: {type: flat}\n", "acme")
    built_in = default_network(BUILT_IN_TEMPLATE, "acme")

    assert network is not None
    assert network.metadata.name == "acme.main"
    assert built_in is not None
    assert built_in.spec.type == "flat"


def test_an_empty_template_gives_no_network() -> None:
    assert default_network(" \n", "acme") is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{.Name}}", "'{{.Name}}'; {{.}} (the tenant's name) is the only substitution"),
        ("{{ . }}", "is the only substitution"),
        ("{", "neither JSON nor YAML"),
        ("[1]", "must be one object"),
        ("spec: {type: flat}", "needs metadata.name"),
        ("metadata: {name: x}", "needs metadata and spec"),
        ("{metadata: {name: x}, spec: {type: 3}}", "is not a Network"),
        ("{metadata: {name: x}, spec: {}}", "is not a Network"),
        ("{metadata: {name: x}, spec: {type: vpc}}", "needs spec.vpcID"),
    ],
)
def test_a_bad_template_says_what_to_change(template: str, message: str) -> None:
    with pytest.raises(InvalidTemplate) as caught:
        default_network(template, "acme")

    assert message in str(caught.value)
