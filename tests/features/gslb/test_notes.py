"""What of a valid configuration is not used is told."""

from typing import Any

import pytest

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.options import GslbOptions
from hanse.model.facts import InvalidConnection
from hanse.model.kinds.globalservice import GlobalService, GlobalServiceSpec
from hanse.model.kinds.gslb import (
    NAMESPACE,
    GSLBHostRule,
    GSLBHostRuleSpec,
    PoolAlgorithm,
    SitePersistence,
)
from hanse.model.objects import Meta
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange
from tests.features.gslb.fleet import HOST, amko, config, leader_snapshot, policy

LEADER = amko("lubeck", leads=True, epoch=1)
GEO = PoolAlgorithm(lb_algorithm="GSLB_ALGORITHM_GEO")


def rule_warnings(options: GslbOptions, **spec: Any) -> list[str] | None:
    rule = GSLBHostRule(
        metadata=Meta(name="rule", namespace=NAMESPACE), spec=GSLBHostRuleSpec(fqdn=HOST, **spec)
    )
    local = [LEADER, config("lubeck"), policy("lubeck"), rule]
    (patch,) = Gslb(options).plan(Key("rule", "rule", NAMESPACE), leader_snapshot(local)).patches
    assert patch.change["status"]["status"] == "Accepted"
    found: list[str] | None = patch.change["status"]["warnings"]
    return found


@pytest.mark.parametrize(
    ("options", "spec", "told"),
    [
        (GslbOptions(), {"site_persistence": SitePersistence(enabled=True)}, "provider avi alone"),
        (GslbOptions(), {"pool_algorithm_settings": GEO}, "geoFallback is not set"),
        (GslbOptions(zones=("global.test",)), {}, "in none of the zones"),
    ],
    ids=["persistence", "fallback", "zone"],
)
def test_a_rule_that_is_accepted_says_what_of_it_is_not_used(
    options: GslbOptions, spec: dict[str, Any], told: str
) -> None:
    warnings = rule_warnings(options, **spec)

    assert warnings is not None
    assert [told in warning for warning in warnings] == [True]


def test_a_rule_that_is_used_whole_has_no_warnings() -> None:
    assert rule_warnings(GslbOptions(zones=("example.org",)), ttl=9) is None


def policy_warnings(*facts: InvalidConnection, **more: Any) -> list[str]:
    clusters = ("lubeck", "hamburg")
    local = [LEADER, config(*clusters), policy(*clusters, **more)]
    snapshot = leader_snapshot(local, facts=facts)
    patches = Gslb().plan(Key("policy"), snapshot).patches
    (found,) = [
        p.change["status"]["warnings"] for p in patches if "warnings" in p.change.get("status", {})
    ]
    return list(found or ())


def test_the_policy_names_clusters_without_credentials() -> None:
    bad = InvalidConnection(
        "gslb", "gslb/hamburg", "spec.clusters", "NoContext", "there is no context hamburg"
    )

    warnings = policy_warnings(bad, pool_algorithm_settings=GEO)

    assert "cluster hamburg brings no members: there is no context hamburg" in warnings
    assert any("geoFallback is not set" in text for text in warnings)


@pytest.mark.parametrize(("zone", "tells"), [("global.test", True), ("example.org", False)])
def test_a_host_in_no_zone_that_is_answered_wakes_the_policy_that_tells_of_it(
    zone: str, tells: bool
) -> None:
    gslb = Gslb(GslbOptions(zones=(zone,)))
    meta = Meta(name=HOST, namespace=NAMESPACE)
    host = GlobalService(metadata=meta, spec=GlobalServiceSpec(host=HOST))
    snapshot = leader_snapshot([LEADER, config("lubeck"), policy("lubeck"), host])

    keys = gslb.keys_for(ObjectChange("lubeck", None, host), snapshot)

    assert (Key("policy") in keys) is tells
