"""Federated policies whose rules can only match what is in the same cluster."""

from typing import Any

import pytest

from hanse.features.policies.content import FEDERATED
from hanse.features.policies.webhooks import PolicyPeersWebhook, peer_warnings
from hanse.model.admission import AdmissionRequest, Allow
from hanse.model.facts import Facts
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy
from hanse.model.objects import Meta, Wire
from hanse.model.snapshot import Snapshot
from tests.support.fleet_reads import findings, read
from tinykube.virtual_time import EPOCH

POD = {"podSelector": {"matchLabels": {"app": "web"}}}
SERVICE = {"name": "web", "namespace": "antrea-plus-system"}


@pytest.mark.parametrize(
    ("spec", "warned"),
    [
        pytest.param({}, False, id="no rules"),
        pytest.param({"ingress": [{"action": "Drop"}]}, False, id="no peers: everybody"),
        pytest.param({"ingress": [{"from": [POD]}]}, True, id="only pods"),
        pytest.param({"ingress": [{"from": [POD, {"group": "web"}]}]}, False, id="a group too"),
        pytest.param({"egress": [{"toServices": [SERVICE]}]}, False, id="a federated Service"),
        pytest.param(
            {"egress": [{"toServices": [{**SERVICE, "scope": "ClusterSet"}]}]}, True, id="a scope"
        ),
        pytest.param({"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}, False, id="cidr"),
        pytest.param({"egress": [{"to": [POD]}, {"toServices": [SERVICE]}]}, False, id="two rules"),
        pytest.param({"egress": "nonsense", "ingress": [7, {"from": "x"}]}, False, id="nonsense"),
    ],
)
def test_a_policy_whose_peers_are_all_local_is_warned_of(spec: Any, warned: bool) -> None:
    assert bool(peer_warnings(spec)) is warned


@pytest.mark.parametrize("federated", [True, False])
def test_the_author_of_a_federated_policy_is_warned_and_never_refused(federated: bool) -> None:
    annotations = {FEDERATED: "true"} if federated else {}
    review = AdmissionRequest(
        "CREATE",
        "crd.antrea.io",
        "v1beta1",
        "ClusterNetworkPolicy",
        "deny",
        object={"metadata": {"annotations": annotations}, "spec": {"ingress": [{"from": [POD]}]}},
    )

    verdict = PolicyPeersWebhook().review(review, Snapshot({}, Facts(), EPOCH, "lubeck"))

    assert isinstance(verdict, Allow)
    assert [w for w in verdict.warnings if "ingress[0].from[0]" in w] == list(verdict.warnings)
    assert bool(verdict.warnings) is federated


def test_a_deletion_needs_no_warning() -> None:
    review = AdmissionRequest("DELETE", "crd.antrea.io", "v1beta1", "ClusterNetworkPolicy", "deny")

    assert PolicyPeersWebhook().review(review, Snapshot({}, Facts(), EPOCH, "lubeck")) == Allow()


@pytest.mark.parametrize("value", ["True", "yes", "", "1"])
def test_an_invalid_federation_annotation_is_warned_about(value: str) -> None:
    annotations = {"federated.anp.antreaplus.vmware-tanzu.com": value}
    policy: Wire = {"metadata": {"name": "p", "annotations": annotations}, "spec": {}}
    review = AdmissionRequest(
        "CREATE", "crd.antrea.io", "v1beta1", "ClusterNetworkPolicy", "p", object=policy
    )

    verdict = PolicyPeersWebhook().review(review, Snapshot({}, Facts(), EPOCH, "lubeck"))
    as_object = AntreaClusterNetworkPolicy(metadata=Meta(name="p", annotations=annotations))
    [found] = findings(read("lubeck", as_object))

    [name] = annotations
    warning = f"annotation {name}: {value!r} is not 'true': the policy is not federated"
    assert verdict == Allow(warnings=(warning,))
    assert (found.code, warning in found.summary) == ("PolicyIgnored", True)
