"""Clusters that leave, are given up or uninstalled: what runs in them runs on."""

from hanse.app import BROKER
from hanse.cli.leave_broker import give_up_member
from hanse.cli.member_records import MemberPlace, delete_objects, list_prepared
from hanse.cli.uninstall.removal import Installation, find_installation, remove_installation
from hanse.model.broker_namespace import accounts_namespace
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Service
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from tests.scenarios.replica_watch import replica_watch
from tests.scenarios.statefulsets import StatefulSetsScenario, spec_of, template
from tests.scenarios.test_statefulsets_budget import counts, has_rolled_out
from tests.scenarios.test_statefulsets_evictions import allow
from tests.support.scenario import Check

GONE = "bergen"


async def test_a_cluster_that_is_given_up_releases_its_share_if_users_say_so(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.add_record(GONE)
    await sets.launch(4)
    await scenario.eventually(sets.is_ready(4))
    await scenario.kill_agent(GONE)
    told = await scenario.eventually(sets.has_conditions(Ready="ClustersAway"))
    assert f"{GONE} cannot be heard" in told["Ready"]

    await give_up(sets)
    told = await scenario.eventually(sets.has_conditions(Placed="NotAsWished"))
    assert "annotate statefulsets.hanse.dev/on-leave=redistribute" in told["Placed"]
    await scenario.settled()
    await sets.shares(bergen=2, hamburg=1, lubeck=1)()

    await sets.annotate(on_leave="redistribute")
    await scenario.eventually(sets.is_ready(4))
    await sets.shares(bergen=2, hamburg=2, lubeck=2)()  # nobody asked the dead cluster
    async with replica_watch(sets) as watch:  # and nobody waits for it: two of six are its own
        await scenario.eventually(counts(watch, 6))
        watch.start_counting()
        await sets.edit({"spec": {"template": template("etcd:3.7")}})
        await scenario.eventually(has_rolled_out(sets, 4))
        assert watch.least == 5


async def give_up(sets: StatefulSetsScenario) -> None:
    """As `hanse leave --broker … --force` does, at a broker that scenarios share."""
    scenario, broker = sets.scenario, sets.admin(BROKER)
    place = MemberPlace(BROKER, BROKER_NAMESPACE, GONE)
    accounts = accounts_namespace(BROKER_NAMESPACE)
    await scenario.make_namespace(BROKER, accounts, keep=True)

    async def clean_up() -> None:
        await delete_objects(broker, await list_prepared(broker, place))

    scenario.closing.push_async_callback(clean_up)
    await give_up_member(broker, place, dry_run=False)


async def test_what_is_uninstalled_without_leaving_runs_on_without_an_owner(
    sets: StatefulSetsScenario,
) -> None:
    scenario, client = sets.scenario, sets.admin(GONE)
    await sets.protect()
    await sets.launch(3, balanced=True)
    await scenario.eventually(sets.is_ready(3))
    await scenario.eventually(allow(sets, bergen=0, hamburg=0, lubeck=0))
    await scenario.settled()
    before = {name: pod.metadata.uid for name, pod in (await sets.pods(GONE)).items()}
    await scenario.kill_agent(GONE)

    await remove_installation(client, await installation(sets), print)

    assert not await installation(sets)
    own = await client.read(StatefulSet, f"store-{GONE}", scenario.namespace)
    assert OWNER not in own.metadata.labels
    await scenario.always(runs(sets, before), for_=scenario.testbed.settle_time)
    for service in ("etcd", f"store-{GONE}-0"):
        found = await client.read(Service, service, scenario.namespace)
        assert OWNER not in found.metadata.labels
    assert await sets.found(GONE, PodDisruptionBudget, f"store-{GONE}") is None


async def installation(sets: StatefulSetsScenario) -> Installation:
    """What `hanse uninstall --force` finds in the namespace; other scenarios share the cluster."""
    found = await find_installation(sets.admin(GONE), definitions=False)
    place = sets.scenario.namespace
    return Installation(
        released=tuple(one for one in found.released if one.namespace == place),
        owned=tuple(one for one in found.owned if one.namespace == place),
    )


def runs(sets: StatefulSetsScenario, before: dict[str, str]) -> Check[None]:
    """That the very same pods run and are ready."""

    async def check() -> None:
        pods = await sets.pods(GONE)
        assert {name: pod.metadata.uid for name, pod in pods.items()} == before
        assert all(p.ready and not p.metadata.deletion_timestamp for p in pods.values())

    return check


async def test_what_is_orphaned_keeps_no_budget_that_nobody_would_open(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.protect()
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await scenario.eventually(allow(sets, bergen=0, hamburg=0, lubeck=0))

    await sets.delete_orphaning()

    await scenario.eventually(is_nobodys(sets))


async def test_a_new_set_adopts_what_is_orphaned_rolls_it_out_and_scales_it_down(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(5)
    await scenario.eventually(sets.is_ready(5))
    await sets.delete_orphaning()
    await scenario.eventually(is_nobodys(sets))
    await scenario.settled()

    async with replica_watch(sets) as watch:
        await scenario.eventually(counts(watch, 5))
        watch.start_counting()
        meta = Meta(name="store", namespace=scenario.namespace)
        submitted = StatefulSet(metadata=meta, spec=spec_of(2, image="etcd:3.7"))
        await sets.admin(BROKER).create(submitted)
        await scenario.eventually(sets.shares(bergen=1, hamburg=1))
        await scenario.eventually(has_rolled_out(sets, 2))
        assert watch.least >= 1

    assert await sets.claims("lubeck") == {"etcd-store-store-lubeck-0"}


def is_nobodys(sets: StatefulSetsScenario) -> Check[None]:
    """That every cluster runs a StatefulSet without an owner, and has no budget."""

    async def check() -> None:
        for cluster in sets.scenario.names:
            own = await sets.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert OWNER not in own.metadata.labels
            assert await sets.found(cluster, PodDisruptionBudget, f"store-{cluster}") is None

    return check
