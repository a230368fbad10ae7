"""One import: what a cluster gets, and what the broker's aggregate says, in both profiles."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.services.imports import derived_name
from hanse.features.services.names import (
    DERIVED_SERVICE,
    PRIORITY,
    RECORD,
    SERVICE_NAME,
    SOURCE_CLUSTER,
    WEIGHT,
)
from hanse.features.services.records import SCHEMA
from hanse.model.conditions import condition
from hanse.model.facts import LeaseLiveness, Phase
from hanse.model.kinds.core import Service, ServiceSpec
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.hanse import MemberSettings
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.naming import unique
from hanse.model.objects import Meta, Object
from hanse.model.plan import Plan
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.features.services.builders import (
    AGGREGATE,
    BROKER,
    FEATURE,
    HERE,
    HOME,
    IMPORT,
    SHOP,
    on_broker,
    port,
    record,
    rules,
    seen,
    wanted,
    written,
)
from tests.support.builders import namespace, stored
from tinykube.virtual_time import EPOCH

KEP = rules("kep-1645")
DERIVED = derived_name(IMPORT)


def plan(view: Snapshot) -> Plan:
    return FEATURE.plan(IMPORT, view)


def dead(cluster: str) -> LeaseLiveness:
    return LeaseLiveness(BROKER, HOME, cluster, cluster, False, EPOCH)


def derived(*ips: str) -> Service:
    meta = Meta(name=DERIVED, namespace=SHOP, labels={SERVICE_NAME: "web"})
    spec = ServiceSpec(cluster_ip=ips[0] if ips else "", cluster_ips=ips)
    return stored(Service(metadata=meta, spec=spec))


def newer(of: str) -> EndpointSlice:
    """The slice of a cluster whose agent is of a later version."""
    [endpoint_slice] = on_broker(record(of))
    said = msgspec.json.decode(endpoint_slice.metadata.annotations[RECORD])
    marks = {RECORD: msgspec.json.encode({**said, "schema": SCHEMA + 1, "type": "Any"}).decode()}
    return replace(endpoint_slice, metadata=replace(endpoint_slice.metadata, annotations=marks))


def sources(plan: Plan) -> list[str]:
    return sorted(s.metadata.labels[SOURCE_CLUSTER] for s in wanted(plan, EndpointSlice))


def clusters(plan: Plan) -> list[str]:
    [told] = wanted(plan, ServiceImport)
    return [c.cluster for c in told.status.clusters]


# -- who gets what


def test_every_exporting_cluster_is_imported_our_own_included() -> None:
    result = plan(seen(broker=[*on_broker(record(HERE)), *on_broker(record("bergen"))]))

    assert sources(result) == ["bergen", HERE]
    assert clusters(result) == ["bergen", HERE]
    assert {d.where for d in result.desired} == {HERE}
    assert all(d.sources == {BROKER} for d in result.desired)


def test_without_exports_there_is_no_import() -> None:
    assert plan(seen()) == Plan()


def test_without_its_namespace_there_is_no_import() -> None:
    slices = on_broker(record("bergen"))
    ending = namespace(SHOP)
    ending = stored(replace(ending, metadata=replace(ending.metadata, deletion_timestamp=EPOCH)))

    assert plan(seen(broker=slices, spaces=())) == Plan()
    assert plan(seen([ending], slices, spaces=())) == Plan()


def test_a_namespace_that_appears_wakes_its_imports() -> None:
    view = seen(broker=on_broker(record("bergen")))
    keys = FEATURE.keys_for(ObjectChange(HERE, None, stored(namespace(SHOP))), view)

    assert IMPORT in set(keys)


def test_a_refused_cluster_is_not_imported() -> None:
    late = record("bergen", age=1, headless=True)

    result = plan(seen(broker=[*on_broker(record(HERE, age=9)), *on_broker(late)]))

    assert sources(result) == [HERE]
    assert clusters(result) == [HERE]


def test_a_dead_cluster_is_left_out_but_never_our_own() -> None:
    slices = [*on_broker(record(HERE)), *on_broker(record("bergen"))]

    result = plan(seen(broker=slices, facts=[dead("bergen"), dead(HERE)]))

    assert sources(result) == [HERE]
    assert clusters(result) == [HERE]


def test_the_aggregate_counts_only_those_whom_all_take_for_alive() -> None:
    slices = [*on_broker(record(HERE)), *on_broker(record("bergen"))]

    result = FEATURE.plan(AGGREGATE, seen(broker=slices, facts=[dead(HERE)]))

    assert clusters(result) == ["bergen"]


def test_an_export_to_others_is_not_imported_here_and_still_counts() -> None:
    elsewhere = record("bergen", port(80, "http"), port(81, "more"), age=9, to=("visby",))

    result = plan(seen(broker=[*on_broker(elsewhere), *on_broker(record("riga"))]))
    alone = plan(seen(broker=on_broker(elsewhere)))

    assert sources(result) == clusters(result) == ["riga"]
    assert wanted(result, ServiceImport)[0].spec.ports == (port(80, "http"),)
    assert alone == Plan()


def test_while_the_broker_was_never_seen_nothing_is_wanted_that_could_be_wrong() -> None:
    assert plan(seen(broker_phase=Phase.CONNECTING)).desired == ()


# -- the two profiles


def test_lighthouse_imports_have_no_address_of_their_own() -> None:
    result = plan(seen(broker=on_broker(record("bergen"))))

    [told] = wanted(result, ServiceImport)
    assert told.spec.ips == ()
    assert wanted(result, Service) == []


def test_kep_1645_makes_the_service_first_and_then_the_import_with_its_addresses() -> None:
    slices = [KEP, *on_broker(record("bergen"))]

    before = plan(seen(broker=slices))
    after = plan(seen([derived("10.0.0.77")], slices))

    assert wanted(before, ServiceImport) == []
    [made] = wanted(before, Service)
    assert made.spec.selector == {}
    assert [p.port for p in made.spec.ports] == [80]
    [told] = wanted(after, ServiceImport)
    assert (told.spec.ips, told.spec.ip_families) == (("10.0.0.77",), ("IPv4",))
    assert told.metadata.annotations[DERIVED_SERVICE] == DERIVED
    [endpoint_slice] = wanted(after, EndpointSlice)
    assert endpoint_slice.metadata.labels[KUBE_SERVICE] == DERIVED


def test_an_import_has_one_address_for_each_family_that_it_has() -> None:
    four = [KEP, *on_broker(record("bergen"))]
    both = [KEP, *on_broker(record("bergen", ip_families=("IPv4", "IPv6")))]
    service = derived("10.0.0.77", "fd00::77")

    assert wanted(plan(seen([service], four)), ServiceImport)[0].spec.ips == ("10.0.0.77",)
    assert wanted(plan(seen([service], both)), ServiceImport)[0].spec.ips == (
        "10.0.0.77",
        "fd00::77",
    )


def test_a_derived_service_that_was_deleted_does_not_take_the_import_with_it() -> None:
    slices = [KEP, *on_broker(record("bergen"))]
    view = seen([derived("10.0.0.77")], slices)
    standing = [o for o in written(plan(view), IMPORT, view) if isinstance(o, ServiceImport)]

    [told] = wanted(plan(seen(standing, slices)), ServiceImport)

    assert told.spec.ips == ("10.0.0.77",)


def test_headless_imports_need_no_derived_service() -> None:
    result = plan(seen(broker=[KEP, *on_broker(record("bergen", headless=True))]))

    assert wanted(result, Service) == []
    [told] = wanted(result, ServiceImport)
    assert (told.spec.type, told.spec.ips) == ("Headless", ())


def test_when_the_profile_changes_back_the_derived_service_is_no_longer_wanted() -> None:
    result = plan(seen([derived("10.0.0.77")], on_broker(record("bergen"))))

    assert wanted(result, Service) == []
    assert KUBE_SERVICE not in wanted(result, EndpointSlice)[0].metadata.labels


# -- weights, failover, ranges


def test_slices_tell_how_much_their_cluster_answers_where_somebody_said_so() -> None:
    plain = plan(seen(broker=on_broker(record("bergen"))))
    fleet = rules(clusters=(MemberSettings(id="bergen", weight=5, priority=0),))
    by_fleet = plan(seen(broker=[fleet, *on_broker(record("bergen"))]))
    own = record("bergen", weight=0, priority=20)
    by_export = plan(seen(broker=[fleet, *on_broker(own)]))

    def marks(result: Plan) -> dict[str, str]:
        return wanted(result, EndpointSlice)[0].metadata.annotations

    assert marks(plain) == {}
    assert marks(by_fleet) == {WEIGHT: "5", PRIORITY: "0"}
    assert marks(by_export) == {WEIGHT: "0", PRIORITY: "20"}
    back = plan(seen(broker=[fleet, *on_broker(record("bergen", weight=1, priority=10))]))
    assert marks(back) == {WEIGHT: "1", PRIORITY: "10"}


def test_addresses_outside_of_a_clusters_ranges_are_left_out_and_told() -> None:
    bounds = rules(clusters=(MemberSettings(id="bergen", ranges=("10.7.0.0/16",)),))
    slices = [*on_broker(record("bergen")), *on_broker(record("riga"), "10.0.0.2")]

    result = plan(seen(broker=[bounds, *slices]))

    held = {s.metadata.labels[SOURCE_CLUSTER]: s.endpoints for s in wanted(result, EndpointSlice)}
    assert held["bergen"] == ()
    assert held["riga"]
    [told] = wanted(result, ServiceImport)[0].status.conditions
    assert (told.type, told.status, told.reason) == ("AddressesAllowed", "False", "OutsideRanges")
    assert "bergen publishes 10.0.0.1: outside of 10.7.0.0/16" in told.message


def test_what_others_tell_on_an_import_is_left_as_it_stands() -> None:
    bounds = rules(clusters=(MemberSettings(id="bergen", ranges=("10.7.0.0/16",)),))
    slices = on_broker(record("bergen"))
    others = condition("Published", False, "NameTaken", "somebody has the name")
    first = wanted(plan(seen(broker=[bounds, *slices])), ServiceImport)[0]
    status = replace(first.status, conditions=(others, *first.status.conditions))
    standing = stored(replace(first, status=status))

    still = wanted(plan(seen([standing], broker=[bounds, *slices])), ServiceImport)[0]
    mended = wanted(plan(seen([standing], broker=slices)), ServiceImport)[0]

    assert still.status.conditions == standing.status.conditions
    assert mended.status.conditions == (others,)


# -- laws


def test_planning_again_after_all_was_written_changes_nothing() -> None:
    bounds = rules("kep-1645", clusters=(MemberSettings(id="bergen", ranges=("10.7.0.0/16",)),))
    slices = [bounds, *on_broker(record("bergen")), *on_broker(record(HERE))]
    standing: list[Object] = [derived("10.0.0.77")]
    view = seen(standing, slices)
    made = written(plan(view), IMPORT, view)
    after = seen([*standing, *made], slices, after=60)

    assert plan(after).desired
    assert written(plan(after), IMPORT, after) == []


@settings(deadline=None, max_examples=40)
@given(st.permutations(["bergen", "visby", HERE]), st.sampled_from(["lighthouse", "kep-1645"]))
def test_the_aggregate_is_the_same_whoever_computes_it(order: list[str], profile: Any) -> None:
    slices = {
        c: on_broker(record(c, port(80, "http"), port(90 + n, f"own-{n}"), age=n))
        for n, c in enumerate(("bergen", "visby", HERE))
    }
    view = seen(broker=[rules(profile), *(s for c in order for s in slices[c])])

    [told] = FEATURE.plan(AGGREGATE, view).desired

    assert told.shared
    assert told.object.metadata.name == unique("web", SHOP)
    found = wanted(FEATURE.plan(AGGREGATE, view), ServiceImport)[0]
    again = seen(broker=[rules(profile), *(s for c in slices for s in slices[c])])
    assert wanted(FEATURE.plan(AGGREGATE, again), ServiceImport)[0] == found


# -- records of a later version


def test_what_came_from_a_cluster_of_a_later_version_is_left_as_it_stands() -> None:
    before = [*on_broker(record("bergen", age=9)), *on_broker(record("riga"))]
    view = seen(broker=before)
    standing = written(plan(view), IMPORT, view)

    after = plan(seen(standing, [newer("bergen"), *on_broker(record("riga", port(81, "http")))]))

    assert sources(after) == ["bergen", "riga"]
    [told] = wanted(after, ServiceImport)
    assert told in standing
    kept = [s for s in wanted(after, EndpointSlice) if s in standing]
    assert [s.metadata.labels[SOURCE_CLUSTER] for s in kept] == ["bergen"]


def test_an_aggregate_that_rests_on_a_later_version_is_neither_rewritten_nor_deleted() -> None:
    view = seen(broker=on_broker(record("bergen")))
    [standing] = written(FEATURE.plan(AGGREGATE, view), AGGREGATE, view)

    after = FEATURE.plan(AGGREGATE, seen(broker=[newer("bergen"), standing]))

    assert [d.object for d in after.desired] == [standing]
