"""Admission of pods and Services: labels, DNS settings, and denials with a remedy."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from hanse.features.networks.names import CNI_ARGS, DNS, NETWORK, NIC, READINESS, TENANT
from hanse.model.admission import Allow, Deny, NeedsAnswer
from hanse.model.facts import Answer
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.networks import Network
from hanse.model.objects import ClusterObjectRef, ObjectRef
from hanse.model.ownership import OWNER
from hanse.model.plan import Read
from tests.features.networks.builders import (
    ADMIN,
    HERE,
    admission_request,
    applied_change,
    cluster_snapshot,
    denial_message,
    hooks,
    network,
)
from tinykube.virtual_time import EPOCH

SPEC = {"containers": [{"name": "main", "image": "none"}]}


# -- pods


def test_a_pod_is_stamped_and_pointed_at_the_dns_of_its_tenants_default_network() -> None:
    observed = cluster_snapshot(network())

    change = applied_change(hooks()["networks-pods"].review(admission_request(spec=SPEC), observed))

    assert change["metadata"]["labels"] == {TENANT: "acme", NETWORK: "default"}
    host = {"name": "KUBERNETES_SERVICE_HOST", "value": "kubernetes.default.svc"}
    assert change["spec"] == {
        "containers": [{**SPEC["containers"][0], "env": [host]}],
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.96.0.53"],
            "searches": ["acme-web.svc.cluster.local", "svc.cluster.local", "cluster.local"],
            "options": [{"name": "ndots", "value": "5"}],
        },
    }


def test_a_container_that_says_where_the_api_server_is_keeps_it() -> None:
    env = [{"name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.9"}]
    spec = {"containers": [{**SPEC["containers"][0], "env": env}], "initContainers": []}

    change = applied_change(
        hooks()["networks-pods"].review(admission_request(spec=spec), cluster_snapshot(network()))
    )

    assert change["spec"]["containers"] == spec["containers"]
    assert "initContainers" not in change["spec"]


def test_a_pod_that_names_a_network_of_its_tenants_is_in_it() -> None:
    observed = cluster_snapshot(
        network(), network("acme.lab", status={"dnsServiceIP": "10.96.0.77"})
    )

    change = applied_change(
        hooks()["networks-pods"].review(
            admission_request(spec=SPEC, labels={NETWORK: "lab"}), observed
        )
    )

    assert change["metadata"]["labels"][NETWORK] == "lab"
    assert change["spec"]["dnsConfig"]["nameservers"] == ["10.96.0.77"]


def test_resolver_settings_of_ones_own_are_kept_beside_the_networks() -> None:
    own = {"searches": ["example.org"], "options": [{"name": "ndots", "value": "2"}]}

    change = applied_change(
        hooks()["networks-pods"].review(
            admission_request(spec={**SPEC, "dnsConfig": own}), cluster_snapshot(network())
        )
    )

    config = change["spec"]["dnsConfig"]
    assert config["searches"][-1] == "example.org"
    assert config["options"] == [{"name": "ndots", "value": "2"}]


@pytest.mark.parametrize("policy", ["Default", "None", "ClusterFirstWithHostNet"])
def test_who_asks_for_another_resolver_gets_it(policy: str) -> None:
    change = applied_change(
        hooks()["networks-pods"].review(
            admission_request(spec={**SPEC, "dnsPolicy": policy}), cluster_snapshot(network())
        )
    )

    assert change["spec"] == {}


def test_pods_of_nodes_themselves_are_left_alone_and_no_others_share_their_network() -> None:
    hook, observed = hooks()["networks-pods"], cluster_snapshot(network())
    mirror = {"kubernetes.io/config.mirror": "x"}
    of_node = admission_request(spec=SPEC, annotations=mirror, groups=("system:nodes",))

    for groups in (("system:authenticated",), ADMIN):
        on_host = admission_request(spec={**SPEC, "hostNetwork": True}, groups=groups)
        assert "spec.hostNetwork" in denial_message(hook.review(on_host, observed))
    assert applied_change(hook.review(of_node, observed)) == {}
    assert (
        applied_change(hook.review(admission_request(spec=SPEC, annotations=mirror), observed))
        != {}
    )


@pytest.mark.parametrize(
    ("labels", "annotations", "message"),
    [
        pytest.param(
            {TENANT: "bolt"},
            {},
            "namespace acme-web belongs to tenant acme, not to bolt; remove the label",
            id="another tenant's label",
        ),
        pytest.param(
            {DNS: "default"}, {}, "it marks a network's DNS; remove it", id="a forged DNS pod"
        ),
        pytest.param(
            {}, {CNI_ARGS: "VPCID=other"}, "the network's provider sets it", id="forged cni-args"
        ),
    ],
)
def test_a_pod_that_forges_is_refused(
    labels: dict[str, str], annotations: dict[str, str], message: str
) -> None:
    request = admission_request(spec=SPEC, labels=labels, annotations=annotations)

    assert message in denial_message(
        hooks()["networks-pods"].review(request, cluster_snapshot(network()))
    )


@pytest.mark.parametrize(
    "elapsed",
    [
        pytest.param(timedelta(minutes=1), id="later"),
        pytest.param(-timedelta(hours=1), id="after the clock went back"),
    ],
)
def test_a_network_that_the_store_does_not_know_is_asked_for_and_then_refused(
    elapsed: timedelta,
) -> None:
    hook = hooks()["networks-pods"]
    request = admission_request(spec=SPEC, labels={NETWORK: "bolts"})
    question = Read(ClusterObjectRef(HERE, ObjectRef(Network.kind, "acme.bolts")))

    first = hook.review(request, cluster_snapshot(network()))
    knowing = Answer(question.id, None, "", EPOCH)
    second = hook.review(request, cluster_snapshot(network(), facts=[knowing]))
    later = hook.review(request, cluster_snapshot(network(), facts=[knowing], now=EPOCH + elapsed))

    assert first == NeedsAnswer(question)
    assert "tenant acme has no network bolts; create Network acme.bolts" in denial_message(second)
    assert later == NeedsAnswer(question)


@pytest.mark.parametrize(
    ("hook", "kind"),
    [
        ("networks-pods", "Pod"),
        ("networks-services", "Service"),
        ("networks-policies", "NetworkPolicy"),
        ("networks-peerings", "NetworkPeering"),
    ],
)
def test_a_namespace_that_could_not_be_read_is_to_be_tried_again(hook: str, kind: str) -> None:
    question = Read(ClusterObjectRef(HERE, ObjectRef(Namespace.kind, "acme-new")))
    failed = Answer(question.id, None, "the connection was reset", EPOCH)

    denied = hooks()[hook].review(
        admission_request(kind, where="acme-new", spec={}), cluster_snapshot(facts=[failed])
    )

    assert denied == Deny("Namespace acme-new could not be read; try again", 503)


def test_a_network_just_created_is_found_by_asking() -> None:
    question = Read(ClusterObjectRef(HERE, ObjectRef(Network.kind, "acme.lab")))
    message: Any = msgspec.to_builtins(network("acme.lab"), str_keys=True)

    change = applied_change(
        hooks()["networks-pods"].review(
            admission_request(spec=SPEC, labels={NETWORK: "lab"}),
            cluster_snapshot(facts=[Answer(question.id, message, "", EPOCH)]),
        )
    )

    assert change["metadata"]["labels"][NETWORK] == "lab"


def test_a_network_without_its_dns_address_is_to_be_tried_again() -> None:
    observed = cluster_snapshot(network(status={"phase": "Pending"}))

    message = denial_message(
        hooks()["networks-pods"].review(admission_request(spec=SPEC), observed)
    )

    assert message == "network acme.default has no DNS address yet; try again"


def test_a_pod_on_a_provider_network_waits_behind_a_gate() -> None:
    observed = cluster_snapshot(network(type_="mizar"))
    gates = [{"name": "mine"}]

    change = applied_change(
        hooks()["networks-pods"].review(
            admission_request(spec={**SPEC, "schedulingGates": gates}), observed
        )
    )

    assert change["metadata"]["annotations"] == {READINESS: "false"}
    assert change["spec"]["schedulingGates"] == [{"name": "mine"}, {"name": READINESS}]


def test_a_pod_that_has_its_node_cannot_wait_for_a_port() -> None:
    observed = cluster_snapshot(network(type_="mizar"))
    request = admission_request(spec={**SPEC, "nodeName": "n"})

    assert "spec.nodeName" in denial_message(hooks()["networks-pods"].review(request, observed))


@pytest.mark.parametrize(
    ("nic", "message"),
    [
        ("{", "write JSON such as"),
        ('{"mac": "x"}', "unknown field"),
        ('{"ip": "1.2.3"}', "is not an address"),
        ('{"subnet": "back"}', "has no subnet back; it has front (10.0.0.0/24)"),
        ('{"subnet": "front", "ip": "10.0.1.1"}', "is outside of subnet front"),
        ('{"ip": "10.0.1.1"}', "is outside of the subnets front (10.0.0.0/24)"),
        ('{"subnet": "10.0.0.0/26", "ip": "10.0.0.77"}', "is outside of subnet 10.0.0.0/26"),
        ('{"name": "eth0;X=1"}', "name 'eth0;X=1' is no name of an interface"),
        ('{"name": "a-name-of-sixteen"}', "write up to 15 letters"),
    ],
)
def test_an_interface_that_cannot_be_had_is_refused(nic: str, message: str) -> None:
    observed = cluster_snapshot(
        network(type_="mizar", subnets=[{"name": "front", "cidr": "10.0.0.0/24"}])
    )
    request = admission_request(spec=SPEC, annotations={NIC: nic})

    assert message in denial_message(hooks()["networks-pods"].review(request, observed))


@pytest.mark.parametrize("subnet", ["front", "10.0.0.0/24", "10.0.0.0/26"])
def test_a_subnet_is_named_or_written_out(subnet: str) -> None:
    observed = cluster_snapshot(
        network(type_="mizar", subnets=[{"name": "front", "cidr": "10.0.0.0/24"}])
    )
    nic = f'{{"name": "eth0", "subnet": "{subnet}", "ip": "10.0.0.5"}}'

    applied_change(
        hooks()["networks-pods"].review(
            admission_request(spec=SPEC, annotations={NIC: nic}), observed
        )
    )


def test_on_a_flat_network_the_annotation_is_ignored_even_if_malformed() -> None:
    request = admission_request(spec=SPEC, annotations={NIC: "{"})

    applied_change(hooks()["networks-pods"].review(request, cluster_snapshot(network())))


# -- labels afterwards


@pytest.mark.parametrize("label", [TENANT, NETWORK, DNS, OWNER])
@pytest.mark.parametrize("kind", ["Pod", "Service", "EndpointSlice"])
def test_stamped_labels_cannot_be_changed(label: str, kind: str) -> None:
    before = {"metadata": {"labels": {TENANT: "acme", NETWORK: "default"}}}
    labels = {TENANT: "acme", NETWORK: "default", label: "other"}
    request = admission_request(kind, labels=labels, before=before, operation="UPDATE")

    message = denial_message(
        hooks()["networks-labels"].review(request, cluster_snapshot(network()))
    )

    assert message.startswith(f"metadata.labels[{label}]: it was stamped when web was created")


def test_users_may_change_other_labels_and_the_agent_all() -> None:
    hook = hooks()["networks-labels"]
    before = {"metadata": {"labels": {TENANT: "acme", NETWORK: "default", "a": "1"}}}
    mine = admission_request(
        labels={TENANT: "acme", NETWORK: "default"}, before=before, operation="UPDATE"
    )
    ours = admission_request(
        labels={},
        before=before,
        operation="UPDATE",
        user="system:serviceaccount:hanse-system:hanse-agent",
    )

    leads = admission_request(
        "Service",
        labels={"hanse.dev/owner": "federated-1"},
        user="system:serviceaccount:antrea-plus-system:lubeck",
        groups=("system:serviceaccounts", "system:serviceaccounts:antrea-plus-system"),
    )

    assert hook.review(mine, cluster_snapshot()) == Allow()
    assert hook.review(ours, cluster_snapshot()) == Allow()
    assert hook.review(leads, cluster_snapshot()) == Allow()


def test_a_tenant_cannot_take_the_gate_away_or_say_that_the_network_is_ready() -> None:
    hook = hooks()["networks-labels"]
    before = {
        "metadata": {"annotations": {READINESS: "false"}},
        "spec": {"schedulingGates": [{"name": READINESS}]},
    }
    request = admission_request(annotations={}, spec={}, before=before, operation="UPDATE")

    message = denial_message(hook.review(request, cluster_snapshot()))

    assert f"metadata.annotations[{READINESS}]" in message
    assert "spec.schedulingGates" in message
