"""What is published, as a pure function."""

from hanse import app
from hanse.features.publishing.feature import Publishing
from hanse.features.publishing.options import NAME_SERVER, PublishingOptions, ServerOptions
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.zones import View
from hanse.model.kinds.externaldns import DNSEndpoint, DNSRecord
from hanse.model.kinds.globalservice import GlobalService, GlobalServiceSpec
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.names import PublishedName
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import ObjectChange
from tests.dns.builders import cluster_snapshot, endpoint_slice, imported, pod

ZONE = "fleet.example.org"
BOTH = PublishingOptions(ZONE, "dns", ServerOptions("192.0.2.53"))
WEB = Key("services.service", "web", "shop")
TWO = (
    imported(),
    endpoint_slice("bergen", "10.2.0.1", weight=3),
    endpoint_slice("hamburg", "fd00::1", "10.1.0.1"),
)


def publishing(options: PublishingOptions = BOTH) -> Publishing:
    return Publishing([ServiceZone(View("published", zone=options.zone))], options)


def planned(*objects: Object, options: PublishingOptions = BOTH, key: Key = WEB) -> Plan:
    return publishing(options).plan(key, cluster_snapshot("lubeck", *objects))


def test_every_cluster_that_has_a_turn_is_published_at_once() -> None:
    plan = planned(*TWO)

    names = {d.object.name: d.object for d in plan.desired if isinstance(d.object, PublishedName)}
    web = names[f"web.shop.svc.{ZONE}"]
    assert {r.type: r.values for r in web.spec.records} == {
        "A": ("10.1.0.1", "10.2.0.1"),
        "AAAA": ("fd00::1",),
        "SRV": (f"0 50 80 web.shop.svc.{ZONE}.",),
    }
    assert f"_http._tcp.bergen.web.shop.svc.{ZONE}" in names
    assert {d.where for d in plan.desired} == {"lubeck", NAME_SERVER}


def test_a_service_is_one_dns_endpoint() -> None:
    plan = planned(*TWO, options=PublishingOptions(ZONE, "dns"))

    (desired,) = plan.desired
    endpoint = desired.object
    assert isinstance(endpoint, DNSEndpoint)
    assert (endpoint.namespace, desired.where) == ("dns", "lubeck")
    assert endpoint.name.startswith("web-shop-services.service-")
    web = f"web.shop.svc.{ZONE}"
    assert endpoint.spec.endpoints[0] == DNSRecord(
        dns_name=web, record_type="A", record_ttl=5, targets=("10.1.0.1", "10.2.0.1")
    )
    assert (
        DNSRecord(
            dns_name=f"_http._tcp.{web}",
            record_type="SRV",
            record_ttl=5,
            targets=(f"0 50 80 {web}.",),
        )
        in endpoint.spec.endpoints
    )


def weighted(*objects: Object) -> list[tuple[str, str, tuple[str, ...], str]]:
    """The address records of a service: type, identifier, targets and weight."""
    options = PublishingOptions(ZONE, "dns", weighted=True)
    endpoint = planned(*objects, options=options).desired[0].object
    assert isinstance(endpoint, DNSEndpoint)
    mine = [r for r in endpoint.spec.endpoints if r.dns_name == f"web.shop.svc.{ZONE}"]
    assert all(not r.provider_specific for r in mine if r.record_type == "SRV")
    return [
        (r.record_type, r.set_identifier, r.targets, r.provider_specific[0].value)
        for r in mine
        if r.record_type != "SRV" and r.provider_specific[0].name == "aws/weight"
    ]


def test_weights_are_sent_to_providers_that_support_them() -> None:
    assert weighted(*TWO) == [
        ("A", "10.1.0.1", ("10.1.0.1",), "1"),
        ("A", "10.2.0.1", ("10.2.0.1",), "3"),
        ("AAAA", "fd00::1", ("fd00::1",), "1"),
    ]


def test_weights_that_are_too_large_keep_their_shares() -> None:
    three = (
        imported(),
        endpoint_slice("bergen", "10.2.0.1", weight=1000),
        endpoint_slice("hamburg", "10.1.0.1", weight=500),
        endpoint_slice("riga", "10.3.0.1", weight=1),
    )

    assert [(one, weight) for _, one, _, weight in weighted(*three)] == [
        ("10.1.0.1", "127"),
        ("10.2.0.1", "255"),
        ("10.3.0.1", "1"),
    ]


def test_pods_of_a_headless_service_are_one_set_that_takes_all_there_is() -> None:
    pods = (imported(type_="Headless"), endpoint_slice("bergen", "10.2.0.1", "10.2.0.2"))

    assert weighted(*pods) == [("A", "all", ("10.2.0.1", "10.2.0.2"), "1")]


def test_text_is_passed_to_external_dns_without_quotes() -> None:
    plan = planned(options=PublishingOptions(ZONE, "dns"), key=Key("services.version"))

    endpoint = plan.desired[0].object
    assert isinstance(endpoint, DNSEndpoint)
    assert [(r.dns_name, r.targets) for r in endpoint.spec.endpoints] == [
        (f"dns-version.{ZONE}", ("1.0.0",))
    ]


def test_a_service_without_anything_ready_is_not_published() -> None:
    assert planned(imported(), endpoint_slice("bergen", pod("10.2.0.1", ready=False))) == Plan()
    assert planned() == Plan()


def test_a_source_that_is_no_longer_there_leaves_nothing_behind() -> None:
    assert planned(*TWO, key=Key("gslb.host", "web", "shop")) == Plan()


def test_a_change_of_a_service_wakes_what_is_published_of_it() -> None:
    change = ObjectChange("lubeck", None, endpoint_slice("bergen", "10.2.0.1"))

    assert list(publishing().keys_for(change, cluster_snapshot("lubeck"))) == [WEB]


def test_two_keys_never_share_an_object() -> None:
    one = planned(
        imported("a-b", namespace="c"),
        endpoint_slice("bergen", "10.2.0.1", service="a-b", namespace="c"),
        key=Key("services.service", "a-b", "c"),
    )
    other = planned(
        imported("a", namespace="b-c"),
        endpoint_slice("bergen", "10.2.0.1", service="a", namespace="b-c"),
        key=Key("services.service", "a", "b-c"),
    )

    assert one.desired[0].object.name != other.desired[0].object.name


def test_what_others_write_dns_endpoints_for_goes_to_the_name_server_alone() -> None:
    zone = ServiceZone(View("published", zone=ZONE))

    plan = Publishing([zone], BOTH, frozenset({zone.name})).plan(
        WEB, cluster_snapshot("lubeck", *TWO)
    )

    assert {d.where for d in plan.desired} == {NAME_SERVER}


def test_every_source_of_names_is_published_with_global_hosts_among_them() -> None:
    feature = app.features(app.Options(publishing=BOTH))[-1]
    health = GlobalService(
        metadata=Meta(name="shop.fleet.example.org", namespace="avi-system"),
        spec=GlobalServiceSpec(host=f"shop.{ZONE}"),
    )

    woken = list(feature.keys_for(ObjectChange("lubeck", None, health), cluster_snapshot("lubeck")))

    assert feature.name == "publishing"
    assert [key.topic for key in woken] == ["gslb.host"]


def test_nothing_is_published_without_a_zone() -> None:
    assert not PublishingOptions().wanted
    assert not PublishingOptions(ZONE).wanted
    assert not PublishingOptions("", "dns").wanted
    assert BOTH.wanted


def test_rights_that_only_a_name_server_needs_say_so() -> None:
    """Global hosts have DNSEndpoints of their own feature; services have those of this one."""
    watches = app.watches_by_feature(app.Options())["publishing"]

    needs = {watch.kind: watch.only_with for watch in watches}
    assert needs[GlobalService] == "a name server"
    assert needs[ServiceImport] == ""
    assert needs[DNSEndpoint] == ""
