"""Admission webhooks for claims and federations, and their certificate."""

from contextlib import suppress

import pytest

from hanse.features.admission.configuration import NAME
from hanse.features.admission.feature import Admission
from hanse.features.admission.options import AdmissionOptions
from hanse.features.federation.feature import Membership
from hanse.features.federation.webhooks import WEBHOOKS
from hanse.kube.errors import ApiError, KubeError, NotFound
from hanse.kube.transport import MERGE_PATCH, Request
from hanse.model.admission import (
    AdmissionDecision,
    AdmissionHook,
    AdmissionRequest,
    Allow,
    WebhookRule,
)
from hanse.model.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import CLUSTER_ID, ClusterClaim, Federation
from hanse.model.objects import Meta
from hanse.model.snapshot import Snapshot
from tests.scenarios.networks import refusal
from tests.support.federation import NAME as LEAGUE
from tests.support.federation import FederationScenario, form_federation
from tests.support.scenario import Check, Features, Scenario, describe_writes


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(),)


@pytest.fixture
def hooks() -> tuple[AdmissionHook, ...]:
    return WEBHOOKS


@pytest.fixture
async def membership(scenario: Scenario) -> FederationScenario:
    """A federation with its agents, whose API servers ask."""
    membership = await form_federation(scenario)
    await scenario.start_agents()
    for cluster in scenario.names:
        await scenario.eventually(is_asked(scenario, cluster))
    return membership


def is_asked(scenario: Scenario, cluster: str) -> Check[None]:
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
        await scenario.admin(cluster).read(ValidatingWebhookConfiguration, NAME)
        assert "Federation league exists" in await refusal(scenario.admin(cluster).send(wrong))

    return check


async def test_what_must_not_be_is_refused_in_one_sentence_that_names_the_field(
    scenario: Scenario, membership: FederationScenario
) -> None:
    admin = membership.admin("lubeck")

    with pytest.raises(ApiError, match="cannot be deleted while Federation league exists"):
        await admin.delete(ClusterClaim, CLUSTER_ID, "")
    with pytest.raises(ApiError, match=r"metadata\.name: Federation league exists"):
        await admin.create(Federation(metadata=Meta(name="second")))
    member = {"clusterID": "oslo", "server": "http://a.example", "secret": "oslo"}
    with pytest.raises(ApiError, match=r"spec.members\[0\].server: 'http://a.example'"):
        await membership.edit("lubeck", {"members": [member]})

    await admin.delete(Federation, LEAGUE, "")

    async def may_go() -> None:
        await admin.delete(ClusterClaim, CLUSTER_ID, "")

    await scenario.eventually(may_go)


async def test_a_certificate_is_made_once_and_nothing_is_written_after_that(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await scenario.settled()
    secret = await membership.admin("bergen").read(Secret, NAME, scenario.system)

    start = len(scenario.network.sent)
    await scenario.kill_agent("bergen")
    await scenario.start_agent("bergen")
    await scenario.eventually(is_asked(scenario, "bergen"))
    await scenario.settled()

    after = await membership.admin("bergen").read(Secret, NAME, scenario.system)
    writes = [
        w for w in describe_writes(scenario.writes_since(start)) if "webhookconfigurations" not in w
    ]
    assert writes == []  # the configuration may have another port to name
    assert after.data == secret.data


async def test_a_deleted_certificate_comes_back_and_is_trusted(
    scenario: Scenario, membership: FederationScenario
) -> None:
    admin = membership.admin("bergen")

    await admin.delete(Secret, NAME, scenario.system)
    await scenario.eventually(lambda: admin.read(Secret, NAME, scenario.system))

    await scenario.eventually(is_asked(scenario, "bergen"))


async def test_while_the_agent_is_down_ids_are_safe_and_everything_else_goes_on(
    scenario: Scenario, membership: FederationScenario
) -> None:
    await scenario.kill_agent("bergen")

    with pytest.raises(KubeError):
        await membership.admin("bergen").delete(ClusterClaim, CLUSTER_ID, "")
    await scenario.make_namespace("bergen", f"{scenario.namespace}-more")

    await scenario.start_agent("bergen")
    await scenario.eventually(is_asked(scenario, "bergen"))


class LabelledConfigMaps:
    """Allows ConfigMaps of a label that none has: its configuration is a mutating one."""

    name = "labelled"
    rules = (
        WebhookRule(
            ("",),
            ("configmaps",),
            objects={"matchLabels": {"hanse.test/labelled": "never"}},
            required=False,
            changes=True,
        ),
    )

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        return Allow()


@pytest.mark.parametrize("hooks", [(*WEBHOOKS, LabelledConfigMaps())], ids=["of both kinds"])
async def test_an_agent_without_webhooks_deletes_those_of_the_one_before(
    scenario: Scenario, membership: FederationScenario
) -> None:
    admin, system = membership.admin("bergen"), scenario.system
    registered = (
        (MutatingWebhookConfiguration, NAME, ""),
        (ValidatingWebhookConfiguration, NAME, ""),
        (Secret, NAME, system),
    )
    for kind, name, namespace in registered:
        await admin.read(kind, name, namespace)

    await scenario.kill_agent("bergen")
    scenario.hooks = ()
    scenario.features = lambda: (Membership(), Admission((), AdmissionOptions(namespace=system)))
    await scenario.start_agent("bergen")

    async def are_gone() -> None:
        left = []
        for kind, name, namespace in registered:
            with suppress(NotFound):
                left.append(await admin.read(kind, name, namespace))
        assert not left, [type(one).__name__ for one in left]

    await scenario.eventually(are_gone)
