"""The CNI arguments that a delegate gets for a pod."""

import pytest

from hanse.features.networks.cni import TRY_AGAIN, CniError, KnownPod, PodRef, pod_cni_args
from hanse.model.kinds.core import Pod
from hanse.model.objects import Meta
from tests.features.networks.builders import network

VPC_ARGS = "IPV4=10.0.0.5;VPCID=vpc-a"


def known(**annotations: str) -> KnownPod:
    """The pod that the API server has, with the CNI arguments of its network."""
    more = {"arktos.futurewei.com/cni-args": VPC_ARGS, **annotations}
    meta = Meta(name="web", namespace="pods", uid="u2", annotations=more)
    return KnownPod(Pod(metadata=meta), network("acme.lab", "vpc", vpcID="vpc-a"))


@pytest.mark.parametrize("command", ["ADD", "CHECK"])
def test_a_pod_that_was_replaced_is_not_attached_to_another_network(command: str) -> None:
    with pytest.raises(CniError, match="pod pods/web of uid u1 is not there") as caught:
        pod_cni_args(PodRef("pods", "web", "u1"), known(), command)

    assert caught.value.code == TRY_AGAIN


def test_a_pod_that_was_replaced_can_still_be_taken_down() -> None:
    assert pod_cni_args(PodRef("pods", "web", "u1"), known(), "DEL") == ""


@pytest.mark.parametrize("uid", ["u2", ""], ids=["of its uid", "by name alone"])
def test_a_pod_has_its_own_arguments(uid: str) -> None:
    assert pod_cni_args(PodRef("pods", "web", uid), known(), "ADD") == VPC_ARGS


def test_a_static_pod_has_the_arguments_of_its_mirror_pod() -> None:
    mirror = known(**{"kubernetes.io/config.mirror": "u1"})

    assert pod_cni_args(PodRef("pods", "web", "u1"), mirror, "ADD") == VPC_ARGS
