"""A host that ended unseen is forgotten once the leader has settled without it, and not before."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hanse.features.gslb.ended_hosts import RENEWALS
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.leader_lease import RENEWAL_INTERVAL, lease_key
from hanse.features.gslb.names import HOSTS, LEADER_LEASE, LED_BY, UNSEEN, WITHDRAWN, site_of
from hanse.features.gslb.settled_hosts import digest_hosts
from hanse.features.gslb.zone import HOST as TOPIC
from hanse.features.gslb.zone import GlobalZone
from hanse.model.dns.zones import View
from hanse.model.facts import Fact, LeaseFreshness, Phase, Role, WriteOutcome
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    Monitor,
)
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.features.gslb.fleet import LOCAL, amko, config, leader_snapshot, policy
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

LEADER = amko("lubeck", "hamburg", leads=True, epoch=1)
FOLLOWER = amko("hamburg")
CONFIG = config("lubeck", "hamburg")
POLICY = policy("lubeck", "hamburg")
CHECK = Monitor(type="TCP", port=80)


def service(host: str, *clusters: str, **annotations: str) -> GlobalService:
    members = tuple(
        GlobalMember(cluster=name, address=f"192.0.2.{n}", monitors=(CHECK,))
        for n, name in enumerate(clusters)
    )
    meta = Meta(name=host, namespace=NAMESPACE, annotations={LED_BY: "1/lubeck", **annotations})
    return GlobalService(metadata=meta, spec=GlobalServiceSpec(host=host, members=members))


SHOP, OLD = service("shop.global.test", "lubeck"), service("old.global.test", "hamburg")
WITHDRAWN_HOST = service("gone.global.test", **{WITHDRAWN: "true"})


# -- what the leader says


def lease_in(where: str, seen: Snapshot) -> Lease:
    context = where.removeprefix("gslb/")
    (desired,) = Gslb().plan(lease_key(context), seen).desired
    assert desired.where == where
    assert isinstance(desired.object, Lease)
    return desired.object


def leading(
    *local: Object, phases: dict[str, Phase] | None = None, facts: Iterable[Fact] = ()
) -> Snapshot:
    return leader_snapshot([LEADER, *local], {"hamburg": [FOLLOWER]}, phases=phases, facts=facts)


def said(seen: Snapshot) -> str | None:
    return lease_in(LOCAL, seen).metadata.annotations.get(HOSTS)


def test_a_leader_names_its_hosts_in_every_cluster() -> None:
    seen = leading(CONFIG, POLICY, SHOP, OLD, WITHDRAWN_HOST)

    hosts = digest_hosts(["old.global.test", "shop.global.test"])
    assert said(seen) == hosts
    assert lease_in(site_of("hamburg"), seen).metadata.annotations[HOSTS] == hosts


FAILED = WriteOutcome(ClusterObjectRef(LOCAL, object_ref(OLD)), "Failed", "500", EPOCH)
ELSEWHERE = WriteOutcome(ClusterObjectRef("gslb/hamburg", object_ref(OLD)), "Failed", "500", EPOCH)


@pytest.mark.parametrize(
    ("seen", "names"),
    [
        (leading(CONFIG, SHOP), False),
        (leading(CONFIG, policy("paris"), SHOP), False),
        (leading(CONFIG, POLICY, SHOP, facts=[FAILED]), False),
        (leading(CONFIG, POLICY, SHOP, facts=[ELSEWHERE]), True),
        (leading(CONFIG, POLICY, SHOP, phases={"hamburg": Phase.UNREACHABLE}), True),
        (
            leading(
                CONFIG, POLICY, SHOP, facts=[replace(cluster(LOCAL, Role.LOCAL), recovering=True)]
            ),
            False,
        ),
    ],
    ids=["no policy", "invalid policy", "failed here", "failed there", "site lost", "restored"],
)
def test_a_leader_that_may_lack_a_host_names_none(seen: Snapshot, names: bool) -> None:
    assert (said(seen) is not None) == names


def test_a_changed_set_of_hosts_waits_for_the_next_renewal() -> None:
    lease = stored(lease_in(LOCAL, leading(CONFIG, POLICY, SHOP)))

    assert lease_in(LOCAL, leading(CONFIG, POLICY, SHOP, OLD, lease)).spec == lease.spec


# -- what a name server makes of it


class NameServer:
    """A zone that gets one renewal of the leader's Lease after the other."""

    def __init__(self, *known: GlobalService) -> None:
        self.zone = GlobalZone(View("all", global_zones=("global.test",)))
        self.zone.known.update(known)
        self._now = EPOCH

    def see(
        self,
        present: Sequence[GlobalService],
        hosts: str | None = None,
        unseen: str = "",
        term: str = "1/lubeck",
        fresh: bool = True,
        after: timedelta = RENEWAL_INTERVAL,
    ) -> set[str]:
        """Let it see a renewal beside these services; the hosts that it answers then."""
        self._now += after
        named = digest_hosts([one.metadata.name for one in present]) if hosts is None else hosts
        annotations = {LED_BY: term, UNSEEN: unseen, **({HOSTS: named} if named else {})}
        lease = Lease(
            metadata=LeaseMeta(name=LEADER_LEASE, namespace=NAMESPACE, annotations=annotations),
            spec=LeaseSpec(lease_duration_seconds=30, renew_time=self._now.isoformat()),
        )
        facts = [LeaseFreshness(LOCAL, NAMESPACE, LEADER_LEASE, fresh=fresh)]
        objects = {LOCAL: [stored(one) for one in (*present, lease)]}
        view = snapshot(Gslb(), LOCAL, [cluster(LOCAL, Role.LOCAL)], objects, facts)
        change = ObjectChange(LOCAL, lease, lease)
        before = {one.metadata.name for one in self.zone.known}
        keys = set(self.zone.keys_for(change, view))
        probed = set(self.zone.probe_keys_for(change, view))
        known = {one.metadata.name for one in self.zone.known}
        assert keys == probed == {Key(TOPIC, host) for host in before - known}
        return known


BOTH = {SHOP.metadata.name, OLD.metadata.name}


def test_a_host_that_the_settled_leader_lacks_is_forgotten_with_its_probes() -> None:
    names = NameServer(SHOP, OLD)

    answered = [names.see([SHOP]) for _ in range(RENEWALS)]

    assert answered == [BOTH] * (RENEWALS - 1) + [{SHOP.metadata.name}]
    assert names.zone.probes(Key(TOPIC, OLD.metadata.name), leading()) == ()


def test_a_host_is_known_while_the_leader_names_another_set() -> None:
    """It has not settled, lost what it is to serve here, or is of an earlier version."""
    names = NameServer(SHOP, OLD)

    for hosts in (digest_hosts(BOTH), digest_hosts([]), "") * RENEWALS:
        assert names.see([SHOP], hosts) == BOTH


def test_the_set_has_to_stay_the_same_for_several_renewals() -> None:
    names, new = NameServer(SHOP, OLD), service("new.global.test", "lubeck")

    for _ in range(RENEWALS):
        names.zone.known.update([new])
        assert names.see([SHOP]) >= BOTH
        assert names.see([SHOP, new]) >= BOTH


@pytest.mark.parametrize(
    "word",
    [{"unseen": "hamburg,bergen"}, {"fresh": False}, {"term": "0/bergen"}],
    ids=["unseen", "stale", "earlier term"],
)
def test_a_leader_that_does_not_see_a_member_ends_no_host(word: dict[str, object]) -> None:
    names = NameServer(SHOP, OLD)

    for _ in range(RENEWALS + 1):
        assert names.see([SHOP], **word) == BOTH  # type: ignore[arg-type]  # by name
    assert names.see([SHOP]) == {SHOP.metadata.name}


def test_renewals_before_an_outage_do_not_count() -> None:
    names = NameServer(SHOP, OLD)
    for _ in range(RENEWALS - 1):
        names.see([SHOP])

    assert names.see([SHOP], after=timedelta(minutes=1)) == BOTH
    assert [names.see([SHOP]) for _ in range(RENEWALS - 1)][-1] == {SHOP.metadata.name}


def test_a_host_that_returns_meanwhile_stays() -> None:
    names = NameServer(SHOP, OLD)
    for _ in range(RENEWALS - 1):
        names.see([SHOP])

    assert names.see([SHOP, OLD]) == BOTH
    assert names.see([SHOP]) == BOTH
