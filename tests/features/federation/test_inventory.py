"""ClusterProperties and ClusterProfiles, where their kinds are served."""

import msgspec

from hanse.features.federation.feature import PROFILE, PROPERTIES
from hanse.kube.transport import Request
from hanse.model.conditions import find_condition
from hanse.model.crds import placeholder_crds
from hanse.model.facts import KindServed, Phase, Role
from hanse.model.kinds.about import ClusterProperty
from hanse.model.kinds.clusterprofile import ClusterProfile
from hanse.model.kinds.federation import CLUSTER_ID, CLUSTER_SET, SYSTEM
from hanse.model.objects import ClusterId
from hanse.model.plan import Key, Plan
from tests.features.federation.builders import FEATURE, HERE, claim, federation, observed
from tests.support.builders import cluster
from tests.support.federation import CRDS, FederationScenario
from tests.support.scenario import Scenario, describe_writes

SERVED = (
    KindServed(HERE, ClusterProperty.kind, True),
    KindServed(HERE, ClusterProfile.kind, True),
)


def test_properties_are_written_beside_claims_where_they_are_served() -> None:
    twin = claim("zzz", "oslo", CLUSTER_ID)  # slipped in beside the id, and counts for nothing
    claims = (claim(CLUSTER_ID, HERE), claim(CLUSTER_SET, "league"), claim("other", "x"), twin)

    plan = FEATURE.plan(PROPERTIES, observed(*claims, facts=SERVED))
    without = FEATURE.plan(PROPERTIES, observed(*claims))

    reported = {d.object.name: getattr(d.object, "spec").value for d in plan.desired}  # noqa: B009 - of any kind
    assert reported == {"cluster.clusterset.k8s.io": HERE, "clusterset.k8s.io": "league"}
    assert without == Plan()


def test_a_profile_reports_whether_a_cluster_is_reachable() -> None:
    states = [
        cluster(HERE, Role.LOCAL, Role.MEMBER),
        cluster("bergen", Role.MEMBER, phase=Phase.UNREACHABLE),
    ]
    seen = observed(federation(HERE, "bergen"), clusters=states, facts=SERVED)

    (away,) = FEATURE.plan(Key(PROFILE, "bergen"), seen).desired
    (here,) = FEATURE.plan(Key(PROFILE, HERE), seen).desired
    unknown = FEATURE.plan(Key(PROFILE, "oslo"), seen)

    assert isinstance(away.object, ClusterProfile)
    assert isinstance(here.object, ClusterProfile)
    healthy = [
        find_condition(o.status.conditions, "ControlPlaneHealthy")
        for o in (here.object, away.object)
    ]
    assert [c.status for c in healthy if c is not None] == ["True", "False"]
    assert away.object.metadata.labels == {"x-k8s.io/cluster-manager": "hanse"}
    assert unknown == Plan()


async def _install_crds(membership: FederationScenario, where: ClusterId) -> None:
    for definition in placeholder_crds():
        if definition["spec"]["names"]["kind"] in ("ClusterProperty", "ClusterProfile"):
            body = msgspec.json.encode(definition)
            await membership.admin(where).send(Request("POST", CRDS, body=body))


async def test_kinds_that_come_later_are_filled_and_then_left_alone(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await _install_crds(membership, "lubeck")

    async def are_there() -> None:
        profiles = await membership.admin("lubeck").list(ClusterProfile, namespace=SYSTEM)
        assert {p.name for p in profiles.objects} == {"lubeck", "hamburg", "bergen"}
        for profile in profiles.objects:
            named = {p.name: p.value for p in profile.status.properties}
            assert named["cluster.clusterset.k8s.io"] == profile.name
        properties = await membership.admin("lubeck").list(ClusterProperty)
        assert {p.name for p in properties.objects} == {
            "cluster.clusterset.k8s.io",
            "clusterset.k8s.io",
        }

    await scenario.eventually(are_there)
    await scenario.settled()
    start = len(scenario.network.sent)
    await scenario.kill_agent("lubeck")
    await scenario.start_agent("lubeck")
    await scenario.settled()
    assert describe_writes(scenario.writes_since(start)) == []

    await membership.name_members("lubeck", "lubeck", "hamburg")

    async def is_gone() -> None:
        profiles = await membership.admin("lubeck").list(ClusterProfile, namespace=SYSTEM)
        assert {p.name for p in profiles.objects} == {"lubeck", "hamburg"}

    await scenario.eventually(is_gone)
