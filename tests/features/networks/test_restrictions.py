"""What tenants may not do: each attempt is denied with the field and the remedy."""

from typing import Any

import pytest

from hanse.features.networks.feature import Networks
from hanse.features.networks.names import NETWORK, TENANT
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.webhooks import network_hooks
from hanse.model.admission import Allow, NeedsAnswer
from hanse.model.kinds.core import Node, NodeAddress, NodeSpec, NodeStatus
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from tests.features.networks.builders import (
    ADMIN,
    admission_request,
    applied_change,
    cidr,
    cluster_snapshot,
    denial_message,
    guard_lease,
    guard_liveness,
    hooks,
    network,
    node,
    pod,
    service,
    space,
)
from tests.support.builders import stored

SPEC = {"containers": [{"name": "main", "image": "none"}]}
NODE = stored(
    Node(
        metadata=Meta(name="n"),
        spec=NodeSpec(pod_cidrs=("10.4.0.0/22",)),
        status=NodeStatus(addresses=(NodeAddress(type="InternalIP", address="192.0.2.7"),)),
    )
)

# -- what is kept for tenants


@pytest.mark.parametrize(("operation", "verb"), [("UPDATE", "changed"), ("DELETE", "deleted")])
def test_a_tenant_cannot_change_its_kubernetes_and_the_refusal_says_why(
    operation: Any, verb: str
) -> None:
    before = {"metadata": {"labels": {OWNER: "networks-1"}}}
    request = admission_request(
        "Service", before=before, operation=operation, name="kubernetes-default"
    )

    message = denial_message(hooks()["networks-kept"].review(request, cluster_snapshot()))

    assert message.startswith(
        f"Service kubernetes-default is kept by Hanse for the network and cannot be {verb}"
    )
    admin = admission_request("Service", before=before, operation=operation, groups=ADMIN)
    assert hooks()["networks-kept"].review(admin, cluster_snapshot()) == Allow()


def test_a_tenant_cannot_make_what_looks_like_ours() -> None:
    request = admission_request("Service", labels={OWNER: "networks-1"})

    assert "remove it" in denial_message(
        hooks()["networks-labels"].review(request, cluster_snapshot())
    )


# -- templates of workloads


def template(kind: str, labels: dict[str, str]) -> dict[str, Any]:
    inner = {"template": {"metadata": {"labels": labels}, "spec": {}}}
    return {"jobTemplate": {"spec": inner}} if kind == "CronJob" else inner


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job", "CronJob"])
def test_a_workload_whose_pods_would_be_refused_is_refused_with_the_path(kind: str) -> None:
    request = admission_request(kind, spec=template(kind, {TENANT: "bolt"}))

    message = denial_message(
        hooks()["networks-templates"].review(request, cluster_snapshot(network()))
    )

    path = "spec.jobTemplate.spec.template" if kind == "CronJob" else "spec.template"
    assert message.startswith(f"{path}.metadata.labels[{TENANT}]: namespace acme-web belongs to")


def test_a_workload_on_a_network_of_the_tenants_passes() -> None:
    request = admission_request("Deployment", spec=template("Deployment", {NETWORK: "lab"}))

    applied_change(
        hooks()["networks-templates"].review(request, cluster_snapshot(network("acme.lab")))
    )


# -- endpoints


def test_slices_by_hand_get_their_services_network() -> None:
    observed = cluster_snapshot(network(), network("acme.lab"), service(network="lab"))
    request = admission_request("EndpointSlice", labels={"kubernetes.io/service-name": "web"})

    change = applied_change(hooks()["networks-slices"].review(request, observed))

    assert change["metadata"]["labels"] == {TENANT: "acme", NETWORK: "lab"}


def test_slices_cannot_lead_to_pods_of_another_network() -> None:
    theirs = pod("secret", "bolt-web", ip="10.4.0.9")
    observed = cluster_snapshot(network(), service(), theirs)
    request = admission_request(
        "EndpointSlice",
        labels={"kubernetes.io/service-name": "web"},
        endpoints=[{"addresses": ["10.4.0.9"]}],
    )

    message = denial_message(hooks()["networks-slices"].review(request, observed))

    assert message == (
        "endpoints[0].addresses: 10.4.0.9 is a pod of another network than acme.default; remove it"
    )


def test_endpoints_in_their_older_form_cannot_either() -> None:
    theirs = pod("secret", "bolt-web", ip="10.4.0.9")
    subsets = [{"addresses": [{"ip": "10.4.0.9"}]}]

    message = denial_message(
        hooks()["networks-slices"].review(
            admission_request("Endpoints", subsets=subsets),
            cluster_snapshot(network(), service(), theirs),
        )
    )

    assert message.startswith("subsets[0].addresses: 10.4.0.9 is a pod of another network")


@pytest.mark.parametrize("address", ["10.96.0.1", "10.4.0.9", "203.0.113.5"])
def test_a_service_of_a_tenant_takes_no_traffic_of_other_addresses(address: str) -> None:
    observed = cluster_snapshot(network(), cidr("10.96.0.0/12"))
    spec = {"ports": [{"port": 80}], "externalIPs": [address]}
    hook = hooks()["networks-services"]
    later = admission_request(
        "Service", spec={**spec, "clusterIP": "10.96.0.9"}, before={"spec": {}}, operation="UPDATE"
    )

    for request in (admission_request("Service", spec=spec), later):
        assert f"spec.externalIPs: {address}" in denial_message(hook.review(request, observed))
    by_admin = admission_request("Service", spec=spec, groups=ADMIN)
    applied_change(hook.review(by_admin, observed))


def test_a_slice_cannot_name_another_network_than_its_service() -> None:
    observed = cluster_snapshot(network(), network("acme.lab"), service())
    labels = {"kubernetes.io/service-name": "web", NETWORK: "lab"}

    message = denial_message(
        hooks()["networks-slices"].review(
            admission_request("EndpointSlice", labels=labels), observed
        )
    )

    assert "Service web is in network default" in message


# -- namespaces


def test_only_administrators_say_whose_a_namespace_is() -> None:
    hook = hooks()["networks-namespaces"]
    grab = admission_request("Namespace", "x", labels={TENANT: "acme"})
    drop = admission_request(
        "Namespace",
        "x",
        labels={},
        before={"metadata": {"labels": {TENANT: "acme"}}},
        operation="UPDATE",
    )

    for request in (grab, drop):
        assert "only administrators" in denial_message(hook.review(request, cluster_snapshot()))
    assert (
        hook.review(
            admission_request("Namespace", "x", labels={TENANT: "acme"}, groups=ADMIN),
            cluster_snapshot(),
        )
        == Allow()
    )
    kept = admission_request(
        "Namespace",
        "x",
        labels={TENANT: "acme", "a": "b"},
        before={"metadata": {"labels": {TENANT: "acme"}}},
        operation="UPDATE",
    )
    assert hook.review(kept, cluster_snapshot()) == Allow()


def test_a_namespace_whose_label_the_store_lacks_is_read_and_not_treated_as_unowned() -> None:
    verdict = hooks()["networks-pods"].review(
        admission_request(spec=SPEC, where="new"), cluster_snapshot()
    )

    assert isinstance(verdict, NeedsAnswer)


# -- networks


@pytest.mark.parametrize(
    ("given", "before", "message"),
    [
        ({"service": {"cidrs": ["10.0.0.0/33"]}}, {}, "'10.0.0.0/33' is not a CIDR"),
        ({"service": {"cidrs": ["10.0.0.1/24"]}}, {}, "write one such as 10.0.0.0/24"),
        ({"service": {"cidrs": ["127.3.0.0/16"]}}, {}, "127.0.0.0/8, which is for each host"),
        ({"service": {"cidrs": ["230.0.0.0/16"]}}, {}, "224.0.0.0/4, which is for multicast"),
        ({"service": {"cidrs": ["fe80::/64"]}}, {}, "fe80::/10, which is for single links"),
        ({"service": {"cidrs": ["10.0.0.0/30"]}}, {}, "fewer than 8 addresses"),
        (
            {"service": {"cidrs": ["10.0.0.0/16", "10.0.1.0/24"]}},
            {},
            "10.0.0.0/16 overlaps 10.0.1.0/24; keep ranges apart",
        ),
        (
            {"service": {"cidrs": ["10.9.0.0/16"]}},
            {},
            "overlaps 10.9.1.0/24 of network bolt.default",
        ),
        (
            {"service": {"cidrs": ["10.96.4.0/24"]}},
            {},
            "overlaps 10.96.0.0/12 of the cluster (ServiceCIDR kubernetes)",
        ),
        ({"service": {"ipam": "Arktos"}}, {}, "ipam Arktos needs at least one range"),
        ({"type": "vpc"}, {}, "spec.vpcID: it is needed for type vpc"),
        ({"tenant": "bolt"}, {}, "spec.tenant: 'bolt' does not agree with the name acme.lab"),
        ({"type": "flat"}, {"type": "vpc", "tenant": "acme"}, "spec.type: it cannot be changed"),
        (
            {
                "subnets": [
                    {"name": "a", "cidr": "10.1.0.0/24"},
                    {"name": "b", "cidr": "10.1.0.0/25"},
                ]
            },
            {},
            "spec.subnets: 10.1.0.0/24 overlaps 10.1.0.0/25",
        ),
        ({"service": {"cidrs": ["10.4.0.0/24"]}}, {}, "overlaps 10.4.0.0/22 of pods on node n"),
        ({"service": {"cidrs": ["192.0.2.0/28"]}}, {}, "overlaps 192.0.2.7 of node n"),
        (
            {"type": "vpc", "vpcID": "v-1"},
            {},
            "spec.vpcID: v-1 is of tenant bolt (network bolt",
        ),
        (
            {"type": "vpc", "vpcID": "v;1"},
            {},
            "spec.vpcID: v;1 is of tenant bolt (network bolt",
        ),
        (
            {"type": "vpc", "vpcID": "v=1"},
            {},
            "spec.vpcID: v=1 is of tenant bolt (network bolt",
        ),
        ({"type": "vpc", "vpcID": "v-1 "}, {}, "is of tenant bolt (network bolt.vpc)"),
        ({"type": "mizar", "vpcID": "v-1"}, {}, "is of tenant bolt (network bolt.vpc)"),
        (
            {"subnets": []},
            {"subnets": [{"name": "a", "cidr": "10.1.0.0/24"}]},
            "spec.subnets: they",
        ),
    ],
)
def test_a_bad_network_is_refused_with_the_field(
    given: dict[str, Any], before: dict[str, Any], message: str
) -> None:
    others = network("bolt.default", service={"cidrs": ["10.9.1.0/24"]})
    vpc = network("bolt.vpc", "vpc", vpcID="v-1")
    observed = cluster_snapshot(others, vpc, NODE, cidr("10.96.0.0/12"))
    request = admission_request(
        "Network",
        "",
        name="acme.lab",
        spec={"type": "flat", "tenant": "acme", **given},
        before={"spec": before} if before else {},
        operation="UPDATE" if before else "CREATE",
        groups=ADMIN,
    )

    assert message in denial_message(hooks()["networks-networks"].review(request, observed))


@pytest.mark.parametrize("length", [63, 64])
def test_a_network_that_no_label_can_name_is_refused(length: int) -> None:
    spec = {"type": "flat", "tenant": "acme"}
    request = admission_request("Network", "", name=f"acme.{'n' * length}", spec=spec, groups=ADMIN)

    verdict = hooks()["networks-networks"].review(request, cluster_snapshot())

    if length == 63:
        assert verdict == Allow()
    else:
        assert "metadata.name: nnnnnnnnnn… has more than 63" in denial_message(verdict)


def test_subnets_may_overlap_those_of_other_networks() -> None:
    subnets = [{"name": "a", "cidr": "10.1.0.0/24"}]
    observed = cluster_snapshot(network("bolt.x", "vpc", vpcID="v", subnets=subnets))
    spec = {"type": "vpc", "vpcID": "w", "tenant": "acme", "subnets": subnets}

    applied_change(
        hooks()["networks-networks"].review(
            admission_request("Network", "", name="acme.x", spec=spec, groups=ADMIN), observed
        )
    )


# -- policies


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            {"from": [{"namespaceSelector": {}}]},
            "add matchLabels arktos.futurewei.com/tenant: acme",
        ),
        ({}, "without peers it is open to other tenants"),
        (
            {"from": [{"namespaceSelector": {"matchLabels": {TENANT: "bolt"}}}]},
            "spec.ingress[0].from[0].namespaceSelector: it may select namespaces of other tenants",
        ),
        (
            {
                "from": [
                    {
                        "namespaceSelector": {
                            "matchLabels": {"kubernetes.io/metadata.name": "bolt-web"}
                        }
                    }
                ]
            },
            "may select namespaces of other tenants",
        ),
    ],
)
def test_a_policy_that_opens_towards_other_tenants_is_refused(
    rule: dict[str, Any], message: str
) -> None:
    request = admission_request("NetworkPolicy", spec={"podSelector": {}, "ingress": [rule]})

    assert message in denial_message(
        hooks()["networks-policies"].review(request, cluster_snapshot())
    )


@pytest.mark.parametrize(
    "peer",
    [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {TENANT: "acme"}}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "acme-web"}}},
        {
            "namespaceSelector": {
                "matchExpressions": [{"key": TENANT, "operator": "In", "values": ["acme"]}]
            }
        },
    ],
)
def test_a_policy_within_the_tenant_passes(peer: dict[str, Any]) -> None:
    request = admission_request(
        "NetworkPolicy", spec={"podSelector": {}, "ingress": [{"from": [peer]}]}
    )

    verdict = hooks()["networks-policies"].review(request, cluster_snapshot())
    guarded = {h.name: h for h in network_hooks(Networks(NetworksOptions(guard=True)))}

    assert isinstance(verdict, Allow)
    assert len(verdict.warnings) == 1
    nodes = cluster_snapshot(node(), guard_lease(), facts=[guard_liveness()])
    assert guarded["networks-policies"].review(request, nodes) == Allow()
    assert guarded["networks-policies"].review(request, cluster_snapshot(node())) == verdict


@pytest.mark.parametrize(
    ("action", "allowed"),
    [("Allow", False), ("Pass", False), (None, False), ("Drop", True), ("Reject", True)],
)
def test_policies_of_plugins_narrow_and_do_not_allow(action: str | None, allowed: bool) -> None:
    rule = {"from": [{"namespaceSelector": {}}], **({"action": action} if action else {})}
    request = admission_request("NetworkPolicy", spec={"priority": 1, "ingress": [rule]})

    verdict = hooks()["networks-plugin-policies"].review(request, cluster_snapshot())

    assert (verdict == Allow()) is allowed
    trusted = admission_request("NetworkPolicy", spec={"ingress": [rule]}, groups=ADMIN)
    assert hooks()["networks-plugin-policies"].review(trusted, cluster_snapshot()) == Allow()


def test_an_address_block_is_allowed_with_a_warning() -> None:
    rule = {"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}
    request = admission_request("NetworkPolicy", spec={"podSelector": {}, "ingress": [rule]})

    verdict = hooks()["networks-policies"].review(request, cluster_snapshot(space()))

    assert isinstance(verdict, Allow)
    assert "cannot narrow" in verdict.warnings[0]
    assert "may hold pods of other tenants" in verdict.warnings[1]
