"""Addresses of pods on simulated nodes."""

from datetime import datetime, timedelta
from typing import cast

from tinykube.controllers.controller import NODES, PODS, Key, Lister, Patch, RecordEvent, Result
from tinykube.controllers.kubelet import PodTiming, SimulatedKubelet
from tinykube.controllers.objects import name_of
from tinykube.controllers.simulated_nodes import SIMULATED
from tinykube.resources import Object

from .builders import NOW, node, pod


class Objects:
    """The lister of one node and its pods, whose addresses only the kubelet knows."""

    now: datetime = NOW

    def __init__(self, host: Object, *pods: Object) -> None:
        self._host = host
        self._pods = {name_of(one): one for one in pods}

    def get(self, store: str, _: str, name: str) -> Object | None:
        return self._host if store == NODES else self._pods.get(name)

    def is_pod_ip_used(self, _: str) -> bool:
        return False

    def delete(self, name: str) -> None:
        del self._pods[name]


def addresses(result: Result) -> list[str]:
    """The addresses in the status that a result writes."""
    (patch,) = [one for one in result.writes if isinstance(one, Patch)]
    return [one["ip"] for one in patch.body["status"]["podIPs"]]


def test_a_pod_that_waits_for_one_address_family_reserves_nothing_of_the_other() -> None:
    host = node(podCIDRs=["fd00::/120", "10.1.0.0/30"])
    host["metadata"]["annotations"] = {SIMULATED: "true"}
    names = ("a", "b", "c")
    objects = Objects(host, *(pod(name, phase="Pending", ip="") for name in names))
    kubelet = SimulatedKubelet(PodTiming(start_after=timedelta(0)))

    def reconcile(name: str) -> Result:
        return kubelet.reconcile(Key(PODS, "shop", name), cast("Lister", objects))

    assert [addresses(reconcile(name)) for name in ("a", "b")] == [
        ["fd00::1", "10.1.0.1"],
        ["fd00::2", "10.1.0.2"],
    ]
    for _ in range(3):
        (warning,) = reconcile("c").writes
        assert isinstance(warning, RecordEvent)
    objects.delete("a")
    reconcile("a")

    assert addresses(reconcile("c")) == ["fd00::3", "10.1.0.1"]
