"""The objects of a host at an Avi controller."""

from hanse.features.gslb.avi import MAX_MONITORS
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.keys import POLICY_KEY, host_key
from hanse.features.gslb.options import GslbOptions
from hanse.model.kinds.avi import AviGslbService, AviHealthMonitor
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.objects import Object
from hanse.model.snapshot import ObjectChange
from tests.features.gslb.fleet import HOST, amko, config, ingress, leader_snapshot, policy

ADDRESS = "10.1.0.1"


def at_controller(*served: Object) -> tuple[AviGslbService, dict[str, AviHealthMonitor]]:
    """What a leader wants at its controller for one host: the service, and its monitors."""
    given = [amko("lubeck", leads=True, epoch=1), config("lubeck"), policy("lubeck"), *served]
    plan = Gslb(GslbOptions(providers=("avi",))).plan(host_key(HOST), leader_snapshot(given))
    wanted = [desired.object for desired in plan.desired]
    (service,) = (obj for obj in wanted if isinstance(obj, AviGslbService))
    monitors = {o.metadata.name: o for o in wanted if isinstance(o, AviHealthMonitor)}
    return service, monitors


def test_every_path_of_a_host_has_a_monitor_of_its_own() -> None:
    paths = ("/", "/cart", "/cart/", "/käse")

    service, monitors = at_controller(
        *(ingress(ADDRESS, name=f"web-{n}", path=path) for n, path in enumerate(paths))
    )

    asked = [monitor.spec.request.split(" ")[1] for monitor in monitors.values()]
    assert asked == ["/", "/cart", "/cart/"]
    assert service.spec.health_monitors == tuple(monitors)
    assert next(iter(monitors)) == f"amko--{HOST}--http-80"


def test_a_controller_gets_no_more_monitors_than_it_takes_and_those_of_members_first() -> None:
    served = [ingress(ADDRESS, name=f"web-{n}", path=f"/path-{n}") for n in range(9)]

    service, monitors = at_controller(*served)

    assert len(monitors) == MAX_MONITORS
    assert service.spec.health_monitors == tuple(monitors)
    assert "/path-0 " in next(iter(monitors.values())).spec.request


def test_paths_that_a_controller_does_not_watch_are_told() -> None:
    served = [ingress(ADDRESS, name=f"web-{n}", path=f"/path-{n}") for n in range(9)]
    given = [amko("lubeck", leads=True, epoch=1), config("lubeck"), policy("lubeck"), *served]
    feature = Gslb(GslbOptions(providers=("avi",)))
    plan = feature.plan(host_key(HOST), leader_snapshot(given))
    (service,) = (d.object for d in plan.desired if isinstance(d.object, GlobalService))
    snapshot = leader_snapshot([*given, service])

    patches = feature.plan(POLICY_KEY, snapshot).patches

    warnings = [w for p in patches for w in p.change.get("status", {}).get("warnings") or ()]
    assert any(w.startswith(f"host {HOST} needs 9 health monitors") for w in warnings)
    created = ObjectChange("lubeck", None, service)
    assert POLICY_KEY in feature.keys_for(created, snapshot)
