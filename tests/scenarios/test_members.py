"""Membership of a broker: records of members, and who counts."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from hanse.cli.join.replace import replace_member
from hanse.cli.member_records import MemberPlace, delete_objects, list_published, set_phase
from hanse.features.services.manifests import FIRST_LEASE_SECONDS
from hanse.features.services.names import DOMAIN, SERVICE_NAME, SOURCE_CLUSTER
from hanse.kube.errors import NotFound
from hanse.kube.lease import new_lease
from hanse.model.agent_report import BROKER_CONNECTION
from hanse.model.conditions import find_condition
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.discovery import MANAGED_BY, EndpointSlice
from hanse.model.kinds.hanse import ClusterMember, ClusterSet, ClusterSetSpec, MemberPhase
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import AGENT, BROKER_NAMESPACE
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from tests.scenarios.disturbances import EACH, Disturbance, disturb
from tests.scenarios.services import ServicesScenario
from tests.support.faults import READ_METHODS, LinkFaults
from tests.support.scenario import Check, all_of


def has_phase(services: ServicesScenario, cluster: str, phase: str) -> Check[None]:
    """That the record of a cluster has a phase."""

    async def check() -> None:
        broker = services.admin(services.scenario.broker)
        record = await broker.read(ClusterMember, cluster, BROKER_NAMESPACE)
        assert record.status.phase == phase, f"{cluster} is {record.status.phase}"

    return check


async def test_every_agent_keeps_its_record_and_a_settled_fleet_writes_none(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    await members.serve_and_export("lubeck")

    for cluster in scenario.names:
        await scenario.eventually(has_phase(members, cluster, "Ready"))

    broker = members.admin(scenario.broker)
    record = await broker.read(ClusterMember, "lubeck", BROKER_NAMESPACE)
    assert (record.spec.features, record.status.agent.version) == (("services",), "0.2.0")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    await scenario.settled()


def endpoints(services: ServicesScenario, cluster: str, *sources: str) -> Check[None]:
    """That a cluster has endpoints of `web` from exactly these clusters."""

    async def check() -> None:
        labels = f"{MANAGED_BY}={DOMAIN},{SERVICE_NAME}=web"
        listed = await services.admin(cluster).list(
            EndpointSlice, namespace=services.scenario.namespace, labels=labels
        )
        found = {s.metadata.labels[SOURCE_CLUSTER] for s in listed.objects if s.endpoints}
        assert found == set(sources), f"{cluster} has endpoints of {found}"

    return check


def exported(services: ServicesScenario, cluster: str, words: str) -> Check[None]:
    """That the export of `web` says so."""

    async def check() -> None:
        export = await services.admin(cluster).read(
            ServiceExport, "web", services.scenario.namespace
        )
        ready = find_condition(export.status.conditions, "Ready")
        assert ready is not None
        assert words in ready.message, ready.message

    return check


async def test_clusters_with_the_same_addresses_import_none_of_each_other_and_are_told(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    for cluster in scenario.names:
        await members.serve_and_export(cluster)
    for cluster in ("bergen", "lubeck"):
        await scenario.eventually(endpoints(members, cluster, "lubeck", "hamburg", "bergen"))
    broker = members.admin(scenario.broker)
    hamburg = (await broker.read(ClusterMember, "hamburg", BROKER_NAMESPACE)).spec.ranges.services
    bergen = (await broker.read(ClusterMember, "bergen", BROKER_NAMESPACE)).spec.ranges.services
    assert hamburg

    settings = [{"id": "bergen", "ranges": [*bergen, *hamburg]}]
    await members.patch_clusterset({"clusters": settings})

    await scenario.eventually(endpoints(members, "bergen", "lubeck", "bergen"))
    await endpoints(members, "lubeck", "lubeck", "hamburg", "bergen")()

    async def is_told() -> None:
        found = await members.admin("bergen").read(ServiceImport, "web", scenario.namespace)
        told = find_condition(found.status.conditions, "AddressesAllowed")
        assert told is not None
        assert (told.status, told.reason) == ("False", "RangesOverlap")
        assert "hamburg publishes" in told.message

    await scenario.eventually(is_told)
    await scenario.eventually(exported(members, "hamburg", "but bergen: their address ranges"))
    await members.patch_clusterset({"clusters": []})
    await scenario.eventually(endpoints(members, "bergen", "lubeck", "hamburg", "bergen"))


@pytest.mark.parametrize("how", EACH)
async def test_a_cluster_that_has_left_is_imported_nowhere_although_its_agent_runs(
    members: ServicesScenario, how: Disturbance
) -> None:
    scenario = members.scenario
    for cluster in ("bergen", "lubeck"):
        await members.serve_and_export(cluster)
    await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))

    left = {"status": {"phase": "Left"}}
    place = (ClusterMember, "lubeck", BROKER_NAMESPACE, left)
    await members.admin(scenario.broker).patch(*place, subresource="status")
    await disturb(scenario, how, "hamburg")

    await scenario.eventually(members.imports("bergen", "web", "bergen"))
    await scenario.eventually(members.imports("hamburg", "web", "bergen"))


@pytest.mark.parametrize("how", ["", "cut", pytest.param("restarted", marks=pytest.mark.virtual)])
async def test_an_agent_that_takes_another_cluster_for_its_own_ends_before_its_first_write(
    members: ServicesScenario, how: Disturbance
) -> None:
    scenario = members.scenario
    await members.serve_and_export("lubeck")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    await scenario.settled()
    await scenario.kill_agent("lubeck")
    before = len(scenario.network.sent)

    if how == "cut":
        scenario.network.cut("lubeck", scenario.broker)
    await scenario.start_agent("lubeck", home="hamburg")
    if how == "cut":  # it meets the broker late
        await asyncio.sleep(5)
        scenario.network.heal("lubeck", scenario.broker)
    if how == "restarted":
        await scenario.kill_agent("lubeck")
        await scenario.start_agent("lubeck", home="hamburg")
    reason = await scenario.end_of("lubeck")

    wrote = [sent for sent in scenario.network.sent[before:] if sent.source == "lubeck"]
    assert "cluster id 'lubeck' is that of another cluster on the broker" in reason
    assert "hanse join --replace --cluster-id lubeck" in reason
    assert [sent for sent in wrote if sent.request.method not in READ_METHODS] == []


@pytest.mark.parametrize("how", EACH)
async def test_a_cluster_that_takes_the_id_of_a_dead_one_inherits_nothing(
    members: ServicesScenario, how: Disturbance
) -> None:
    scenario = members.scenario
    broker = members.admin(scenario.broker)
    await members.serve_and_export("lubeck", "old")
    await members.serve_and_export("hamburg", "new")
    await scenario.eventually(members.everywhere("old", "lubeck"))
    await scenario.eventually(members.everywhere("new", "hamburg"))
    before = await broker.read(ClusterMember, "lubeck", BROKER_NAMESPACE)
    for cluster in ("lubeck", "hamburg"):
        await scenario.kill_agent(cluster)

    rebuilt = (await members.admin("hamburg").read(Namespace, "kube-system")).metadata.uid
    place = MemberPlace(scenario.broker, BROKER_NAMESPACE, "lubeck")
    await replace_member(broker, place, before.spec.uid, rebuilt, dry_run=False)
    await disturb(scenario, how, "bergen")
    await scenario.eventually(members.imports("bergen", "old"))
    replaced = await broker.read(ClusterMember, "lubeck", BROKER_NAMESPACE)
    await set_phase(broker, replaced, "Joining", epoch=replaced.status.epoch + 1)
    await scenario.start_agent("lubeck", home="hamburg")
    await disturb(scenario, how, "bergen")

    await scenario.eventually(has_phase(members, "lubeck", "Ready"))
    await scenario.eventually(members.imports("bergen", "new", "lubeck"))
    await scenario.always(members.imports("bergen", "old"), for_=timedelta(seconds=12))
    after = await broker.read(ClusterMember, "lubeck", BROKER_NAMESPACE)
    assert (after.spec.uid, after.status.epoch) == (rebuilt, before.status.epoch + 1)


async def replace_by_itself(services: ServicesScenario, cluster: str) -> None:
    """Replace a cluster, and begin its next epoch, as `hanse join --replace` does."""
    broker = services.admin(services.scenario.broker)
    before = await broker.read(ClusterMember, cluster, BROKER_NAMESPACE)
    place = MemberPlace(services.scenario.broker, BROKER_NAMESPACE, cluster)
    await replace_member(broker, place, "former", before.spec.uid, dry_run=False)
    with suppress(NotFound):
        await broker.delete(Lease, cluster, BROKER_NAMESPACE)
    spec = LeaseSpec(lease_duration_seconds=FIRST_LEASE_SECONDS)
    await broker.create(new_lease(BROKER_NAMESPACE, cluster, spec))
    await set_phase(broker, before, "Joining", epoch=before.status.epoch + 1)


async def test_who_was_away_while_a_cluster_was_replaced_keeps_nothing_of_the_former(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    await members.serve_and_export("lubeck")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    for cluster in ("lubeck", "bergen"):
        await scenario.kill_agent(cluster)

    await replace_by_itself(members, "lubeck")
    await scenario.start_agent("bergen")

    await scenario.eventually(members.imports("bergen", "web"))
    await scenario.always(members.imports("bergen", "web"), for_=timedelta(seconds=12))
    await scenario.start_agent("lubeck")
    await scenario.eventually(members.everywhere("web", "lubeck"))


@pytest.mark.parametrize("bump", [0, 10_000])
async def test_a_broker_restored_to_when_a_cluster_joined_anew_takes_nothing_of_it_away(
    members: ServicesScenario, bump: int
) -> None:
    scenario = members.scenario
    await members.serve_and_export("lubeck")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    await scenario.kill_agent("lubeck")
    await replace_by_itself(members, "lubeck")
    backup = await scenario.testbed.back_up(scenario.broker)
    await scenario.start_agent("lubeck")
    await scenario.eventually(has_phase(members, "lubeck", "Ready"))
    await scenario.eventually(members.everywhere("web", "lubeck"))
    before = len(scenario.network.sent)

    scenario.network.cut("lubeck", scenario.broker)  # so that importers are first
    await scenario.testbed.restore(scenario.broker, backup, bump=bump)
    await asyncio.sleep(4)
    scenario.network.heal("lubeck", scenario.broker)

    held = (members.imports(one, "web", "lubeck") for one in scenario.names)
    await scenario.always(all_of(*held), for_=timedelta(seconds=60))
    written = [w.request for w in scenario.writes_since(before)]
    assert [w for w in written if w.method == "DELETE"] == [], "nothing went for a moment"
    await scenario.eventually(has_phase(members, "lubeck", "Ready"))


async def set_record(services: ServicesScenario, cluster: str, phase: MemberPhase) -> None:
    """Write the phase of a record, as an administrator."""
    broker = services.admin(services.scenario.broker)
    record = await broker.read(ClusterMember, cluster, BROKER_NAMESPACE)
    await set_phase(broker, record, phase)


def nothing_of(services: ServicesScenario, cluster: str) -> Check[None]:
    """That nothing of a cluster is on the broker, and nothing of the fleet in it."""

    async def check() -> None:
        broker = services.admin(services.scenario.broker)
        place = MemberPlace(services.scenario.broker, BROKER_NAMESPACE, cluster)
        assert await list_published(broker, place) == []
        for kind in (ServiceImport, EndpointSlice, Service):
            left = await services.admin(cluster).list(kind, labels=OWNER)
            assert not left.objects, f"{cluster} has {left.objects}"

    return check


@pytest.mark.parametrize("fault", ["", "restarted", "cut"])
async def test_a_cluster_that_leaves_withdraws_everything_and_others_keep_theirs(
    members: ServicesScenario, fault: str
) -> None:
    scenario = members.scenario
    for cluster in ("bergen", "lubeck"):
        await members.serve_and_export(cluster)
    await members.serve_and_export("lubeck", "own")
    await members.serve_and_export("bergen", "theirs")
    await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))
    await scenario.eventually(members.everywhere("own", "lubeck"))
    await scenario.eventually(members.everywhere("theirs", "bergen"))

    if fault == "cut":
        scenario.network.cut("lubeck", scenario.broker)
    await set_record(members, "lubeck", "Leaving")
    if fault == "cut":
        await asyncio.sleep(8)
        scenario.network.heal("lubeck", scenario.broker)
    if fault == "restarted":
        await scenario.kill_agent("lubeck")
        await scenario.start_agent("lubeck")

    await scenario.eventually(has_phase(members, "lubeck", "Left"))
    await scenario.eventually(nothing_of(members, "lubeck"))
    for cluster in ("bergen", "hamburg"):
        await scenario.eventually(members.imports(cluster, "web", "bergen"))
        await scenario.eventually(members.imports(cluster, "own"))
    kept = [members.imports(cluster, "web", "bergen") for cluster in ("bergen", "hamburg")]
    await scenario.always(all_of(nothing_of(members, "lubeck"), *kept), for_=timedelta(seconds=12))
    assert await members.found("lubeck", ServiceExport, "web") is not None


@pytest.mark.virtual
async def test_an_agent_that_left_while_it_was_refused_no_longer_says_so(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    await scenario.stop_agent("lubeck")
    await scenario.start_agent("lubeck", "1")  # one of several replicas: they have a Lease
    await scenario.eventually(has_phase(members, "lubeck", "Ready"))

    async def reported() -> str:
        lease = await members.found("lubeck", Lease, AGENT, scenario.system)
        assert lease is not None
        return lease.metadata.annotations.get(BROKER_CONNECTION, "")

    async def is_refused() -> None:
        assert await reported()

    async def says_nothing() -> None:
        assert not await reported()

    await scenario.eventually(says_nothing)
    scenario.network.link("lubeck/1", scenario.broker).faults = LinkFaults(forbids="writes")
    await scenario.eventually(is_refused)

    await set_record(members, "lubeck", "Left")

    await scenario.eventually(says_nothing)


async def test_a_cluster_that_joins_again_after_leaving_is_a_member_without_a_new_agent(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    for cluster in ("bergen", "lubeck"):
        await members.serve_and_export(cluster)
    await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))
    broker = members.admin(scenario.broker)
    for _ in range(2):
        await set_record(members, "lubeck", "Leaving")
        await scenario.eventually(has_phase(members, "lubeck", "Left"))
        await scenario.eventually(nothing_of(members, "lubeck"))

        left = await broker.read(ClusterMember, "lubeck", BROKER_NAMESPACE)
        await set_phase(broker, left, "Joining", epoch=left.status.epoch + 1)

        await scenario.eventually(has_phase(members, "lubeck", "Ready"))
        await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))
    await scenario.settled()


async def test_a_cluster_that_has_left_does_not_return_by_an_earlier_record(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    await members.serve_and_export("lubeck")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    await set_record(members, "lubeck", "Leaving")
    await scenario.eventually(has_phase(members, "lubeck", "Left"))
    await scenario.eventually(nothing_of(members, "lubeck"))

    await set_record(members, "lubeck", "Ready")  # as a restored broker has it

    await scenario.always(nothing_of(members, "lubeck"), for_=timedelta(seconds=30))


@pytest.mark.parametrize("how", EACH)
async def test_a_dead_cluster_that_was_given_up_withdraws_at_home_when_it_returns(
    members: ServicesScenario, how: Disturbance
) -> None:
    scenario = members.scenario
    for cluster in ("bergen", "lubeck"):
        await members.serve_and_export(cluster)
    await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))
    await scenario.kill_agent("lubeck")

    await set_record(members, "lubeck", "Left")
    await disturb(scenario, how, "hamburg")
    await scenario.eventually(members.imports("hamburg", "web", "bergen"))
    broker = members.admin(scenario.broker)
    place = MemberPlace(scenario.broker, BROKER_NAMESPACE, "lubeck")
    await delete_objects(broker, await list_published(broker, place))
    await scenario.start_agent("lubeck")

    await scenario.eventually(nothing_of(members, "lubeck"))
    out = all_of(nothing_of(members, "lubeck"), members.imports("hamburg", "web", "bergen"))
    await scenario.always(out, for_=timedelta(seconds=12))


@pytest.mark.parametrize("how", ["", "restarted", pytest.param("cut", marks=pytest.mark.virtual)])
async def test_the_last_rules_stand_when_the_cluster_set_is_deleted(
    members: ServicesScenario, how: Disturbance
) -> None:
    scenario = members.scenario
    broker = members.admin(scenario.broker)
    await members.set_profile("kep-1645")
    await members.serve_and_export("lubeck")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    await scenario.settled()
    before = await members.found("bergen", ServiceImport)
    assert before is not None
    assert before.spec.ips, "kep-1645 gives an import an address"

    await broker.delete(ClusterSet, scenario.namespace, "")
    for cluster in scenario.names if how == "restarted" else ("bergen",):
        await disturb(scenario, how, cluster)

    async def unchanged() -> None:
        after = await members.found("bergen", ServiceImport)
        assert after is not None, "the import is gone"
        assert after.spec == before.spec

    await scenario.always(unchanged, for_=timedelta(seconds=20))
    await broker.create(
        ClusterSet(
            metadata=Meta(name=scenario.namespace),
            spec=ClusterSetSpec(profile="kep-1645", lease_duration_seconds=3),
        )
    )
    await scenario.always(unchanged, for_=timedelta(seconds=5))


@pytest.mark.virtual  # test_broker_namespace.py has the order in which real servers lose one
async def test_a_clusterset_ip_outlives_its_silent_exporter_and_a_broker_made_anew(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    await members.set_profile("kep-1645")
    await members.serve_and_export("lubeck")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    await scenario.settled()
    before = await members.found("hamburg", ServiceImport)
    assert before is not None

    async def stands() -> None:
        after = await members.found("hamburg", ServiceImport)
        assert after is not None, "the import is gone"
        assert after.spec.ips == before.spec.ips

    await scenario.kill_agent("lubeck")
    await scenario.eventually(endpoints(members, "hamburg"))
    await stands()
    await members.admin(scenario.broker).delete(Namespace, BROKER_NAMESPACE, "")
    await scenario.eventually(scenario.has_no_namespace(scenario.broker, BROKER_NAMESPACE))
    await scenario.make_namespace(scenario.broker, BROKER_NAMESPACE, keep=True)
    for cluster in ("bergen", "hamburg"):
        await scenario.allow_on_broker(cluster)
        await members.add_record(cluster)
    await scenario.always(stands, for_=timedelta(seconds=30))
    await scenario.kill_agent("hamburg")
    await scenario.start_agent("hamburg")
    await scenario.always(stands, for_=timedelta(seconds=60))
    await scenario.settled()

    await scenario.allow_on_broker("lubeck")
    await members.add_record("lubeck")
    await scenario.start_agent("lubeck")
    await scenario.eventually(members.everywhere("web", "lubeck"))
    await stands()
