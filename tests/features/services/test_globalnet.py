"""Where Globalnet runs, exports are reached by global addresses."""

from msgspec.structs import replace

from hanse.model.facts import KindServed
from hanse.model.kinds.core import ObjectReference
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.submariner import (
    GlobalIngressIP,
    GlobalIngressIPSpec,
    GlobalIngressIPStatus,
    Named,
)
from hanse.model.objects import Meta
from hanse.model.plan import Plan
from hanse.model.snapshot import Snapshot
from tests.features.services.builders import (
    EXPORT,
    FEATURE,
    HERE,
    SHOP,
    backends,
    conditions,
    desired,
    export,
    message,
    observed,
    rules,
    service,
)
from tests.support.builders import stored

GLOBALNET = KindServed(HERE, GlobalIngressIP.kind, True)


def plan(view: Snapshot) -> Plan:
    return FEATURE.plan(EXPORT, view)


def ingress(name: str, address: str, *, pod: str = "") -> GlobalIngressIP:
    spec = GlobalIngressIPSpec(
        target="HeadlessServicePod" if pod else "ClusterIPService",
        service_ref=Named(name="web"),
        pod_ref=Named(name=pod) if pod else None,
    )
    return stored(
        GlobalIngressIP(
            metadata=Meta(name=name, namespace=SHOP),
            spec=spec,
            status=GlobalIngressIPStatus(allocated_ip=address),
        )
    )


def test_where_globalnet_runs_an_export_waits_for_its_global_address() -> None:
    here = [export(), service(), backends()]

    for more in ([], [ingress("web", "")], [ingress("web", "not an address")]):
        result = plan(observed([*here, *more], facts=[GLOBALNET]))
        assert conditions(result)["Ready"] == ("False", "Pending")
        assert "Globalnet" in message(result, "Ready")
        assert not any(s.endpoints for s in desired(result, EndpointSlice))


def test_the_global_address_is_published_in_place_of_the_services_own() -> None:
    here = [export(), service(), backends(), ingress("web", "242.1.0.5")]

    [endpoint_slice] = desired(plan(observed(here, facts=[GLOBALNET])), EndpointSlice)

    assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("242.1.0.5",)]


def test_pods_without_a_global_address_are_not_published_in_kep_1645() -> None:
    """Globalnet gives one to the Service, and to pods of headless Services only."""
    here = [export(), service(), backends(), ingress("web", "242.1.0.5")]

    view = observed(here, [rules("kep-1645")], facts=[GLOBALNET])

    [endpoint_slice] = desired(plan(view), EndpointSlice)
    assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("242.1.0.5",)]
    assert [p.port for p in endpoint_slice.ports or ()] == [80]


def test_pods_are_published_by_their_global_addresses_and_others_wait() -> None:
    pods = backends(2)
    named = tuple(
        replace(e, target_ref=ObjectReference(kind="Pod", name=f"web-{n}"))
        for n, e in enumerate(pods.endpoints or ())
    )
    here = [export(), service(headless=True), replace(pods, endpoints=named)]

    waiting = plan(observed(here, facts=[GLOBALNET]))
    [endpoint_slice] = desired(
        plan(observed([*here, ingress("pod-web-1", "242.1.0.9", pod="web-1")], facts=[GLOBALNET])),
        EndpointSlice,
    )

    assert conditions(waiting)["Ready"] == ("False", "Pending")
    assert "Globalnet" in message(waiting, "Ready")
    assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("242.1.0.9",)]


def test_without_globalnet_nobody_waits() -> None:
    absent = KindServed(HERE, GlobalIngressIP.kind, False)

    [endpoint_slice] = desired(
        plan(observed([export(), service(), backends()], facts=[absent])), EndpointSlice
    )

    assert endpoint_slice.endpoints
