"""API servers ask agents about claims and federations, and know them by their certificate."""

import pytest

from hanse.features.admission.configuration import NAME
from hanse.features.federation.feature import Membership
from hanse.features.federation.webhooks import HOOKS
from hanse.kube.errors import ApiError, KubeError
from hanse.kube.request import MERGE_PATCH, Request
from hanse.model.kinds.admission import ValidatingWebhookConfiguration
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import CLUSTER_ID, ClusterClaim, Federation
from hanse.model.objects import Meta
from hanse.model.verdict import Hook
from tests.scenarios.city import refusal
from tests.support.stage import Check, Features, Stage, told
from tests.support.stage_federation import NAME as LEAGUE
from tests.support.stage_federation import League, federate


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(),)


@pytest.fixture
def hooks() -> tuple[Hook, ...]:
    return HOOKS


@pytest.fixture
async def league(stage: Stage) -> League:
    """A federation with its agents, whose API servers ask."""
    league = await federate(stage)
    await stage.start_agents()
    for cluster in stage.names:
        await stage.eventually(is_asked(stage, cluster))
    return league


def is_asked(stage: Stage, cluster: str) -> Check[None]:
    """That a cluster's agent answers its API server: a wrong write is refused in its words."""

    path = f"/apis/{ClusterClaim.kind.api_version}/{ClusterClaim.kind.plural}/{CLUSTER_ID}"
    wrong = Request(
        "PATCH",
        path,
        (("dryRun", "All"),),
        body=b'{"value": "elsewhere"}',
        content_type=MERGE_PATCH,
    )

    async def check() -> None:
        await stage.person(cluster).read(ValidatingWebhookConfiguration, NAME)
        assert "Federation league exists" in await refusal(stage.person(cluster).send(wrong))

    return check


async def test_what_must_not_be_is_refused_in_one_sentence_that_names_the_field(
    stage: Stage, league: League
) -> None:
    person = league.person("lubeck")

    with pytest.raises(ApiError, match="cannot be deleted while Federation league exists"):
        await person.delete(ClusterClaim, CLUSTER_ID, "")
    with pytest.raises(ApiError, match=r"metadata\.name: Federation league exists"):
        await person.create(Federation(metadata=Meta(name="second")))
    member = {"clusterID": "oslo", "server": "http://a.example", "secret": "oslo"}
    with pytest.raises(ApiError, match=r"spec.members\[0\].server: 'http://a.example'"):
        await league.edit("lubeck", {"members": [member]})

    await person.delete(Federation, LEAGUE, "")

    async def may_go() -> None:
        await person.delete(ClusterClaim, CLUSTER_ID, "")

    await stage.eventually(may_go)


async def test_a_certificate_is_made_once_and_nothing_is_written_after_that(
    stage: Stage, league: League
) -> None:
    await stage.settled()
    secret = await league.person("bergen").read(Secret, NAME, stage.system)

    start = len(stage.network.sent)
    await stage.kill_agent("bergen")
    await stage.start_agent("bergen")
    await stage.eventually(is_asked(stage, "bergen"))
    await stage.settled()

    after = await league.person("bergen").read(Secret, NAME, stage.system)
    writes = [w for w in told(stage.writes_since(start)) if "webhookconfigurations" not in w]
    assert writes == []  # the configuration may have another port to name
    assert after.data == secret.data


async def test_a_deleted_certificate_comes_back_and_is_trusted(
    stage: Stage, league: League
) -> None:
    person = league.person("bergen")

    await person.delete(Secret, NAME, stage.system)
    await stage.eventually(lambda: person.read(Secret, NAME, stage.system))

    await stage.eventually(is_asked(stage, "bergen"))


async def test_while_the_agent_is_down_ids_are_safe_and_everything_else_goes_on(
    stage: Stage, league: League
) -> None:
    await stage.kill_agent("bergen")

    with pytest.raises(KubeError):
        await league.person("bergen").delete(ClusterClaim, CLUSTER_ID, "")
    await stage.make_namespace("bergen", f"{stage.shop}-more")

    await stage.start_agent("bergen")
    await stage.eventually(is_asked(stage, "bergen"))
