"""Webhook configurations, and the life cycle of their certificate."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.admission.certificate import AUTHORITY, CERTIFICATE, read_certificate
from hanse.features.admission.configuration import NAME, certificate_hosts
from hanse.features.admission.feature import KEY, PROVIDER, Admission
from hanse.features.admission.options import AdmissionOptions
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, WebhookRule
from hanse.model.facts import Answer, Fact, Role
from hanse.model.kinds.admission import ValidatingWebhookConfiguration
from hanse.model.kinds.core import Secret, Service
from hanse.model.objects import K, Object
from hanse.model.plan import Call, Plan
from hanse.model.snapshot import Snapshot
from hanse.web.webhooks.certificates import Certificates
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

URL = AdmissionOptions(enabled=True, url="https://127.0.0.1:9443")
BY_SERVICE = AdmissionOptions(enabled=True, namespace="hanse-system", port=9443)
YEAR = timedelta(days=365)


class TwoRuleWebhook:
    """A webhook with two rules: one with the failure policy Fail, one with Ignore."""

    name = "guard"
    rules = (
        WebhookRule(("",), ("pods",), namespaces={"matchLabels": {"tenant": "yes"}}),
        WebhookRule(("",), ("services",), required=False),
    )

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        return Allow()


class Clock:
    def __init__(self, after: timedelta) -> None:
        self._after = after

    def now(self) -> Any:
        return EPOCH + self._after


def feature(options: AdmissionOptions = URL) -> Admission:
    return Admission([TwoRuleWebhook()], options)


def observed(
    *objects: Object, facts: tuple[Fact, ...] = (), after: timedelta = timedelta(0)
) -> Any:
    home = cluster("lubeck", Role.LOCAL)
    return snapshot(feature(), "lubeck", [home], {"lubeck": objects}, facts, EPOCH + after)


def answer(hosts: str = "127.0.0.1", replaces: str = "", after: timedelta = timedelta(0)) -> Answer:
    """The answer of the provider."""
    issued = asyncio.run(Certificates(Clock(after))(hosts, replaces))
    call = Call(PROVIDER, (("hosts", hosts), ("replaces", replaces)))
    return Answer(call.id, issued, "", EPOCH + after)


def desired(plan: Plan, kind: type[K]) -> K:
    (found,) = [d.object for d in plan.desired if isinstance(d.object, kind)]
    return found


def first_secret() -> Secret:
    return desired(feature().plan(KEY, observed(facts=(answer(),))), Secret)


def test_without_a_certificate_one_is_requested_and_nothing_is_written() -> None:
    plan = feature().plan(KEY, observed())

    assert plan.desired == ()
    assert [q.ask for q in plan.questions] == [
        Call(PROVIDER, (("hosts", "127.0.0.1"), ("replaces", "")))
    ]


def test_the_certificate_is_written_before_the_configurations() -> None:
    plan = feature().plan(KEY, observed(facts=(answer(),)))

    steps = {type(d.object).__name__: d.step for d in plan.desired}
    assert steps == {"Secret": 0, "ValidatingWebhookConfiguration": 1}
    assert read_certificate(desired(plan, Secret)) is not None


def test_required_webhooks_exempt_the_namespaces_of_the_agent() -> None:
    plan = feature().plan(KEY, observed(facts=(answer(),)))
    pods, services = desired(plan, ValidatingWebhookConfiguration).webhooks

    (rule,) = pods["namespaceSelector"]["matchExpressions"]
    assert rule["operator"] == "NotIn"
    assert set(rule["values"]) == {"hanse-system", "antrea-plus-system", "kube-system"}
    assert pods["namespaceSelector"]["matchLabels"] == {"tenant": "yes"}
    assert (pods["failurePolicy"], services["failurePolicy"]) == ("Fail", "Ignore")
    assert pods["clientConfig"]["url"] == "https://127.0.0.1:9443/guard"


def test_a_young_certificate_is_left_as_it_is() -> None:
    secret = stored(first_secret())

    plan = feature().plan(KEY, observed(secret))

    assert plan.questions == ()
    assert desired(plan, Secret).data == secret.data


def test_an_old_certificate_is_replaced_and_both_are_trusted_meanwhile() -> None:
    secret = stored(first_secret())
    certificate = read_certificate(secret)
    assert certificate is not None
    old = feature().plan(KEY, observed(secret, after=YEAR * 0.7))
    (question,) = old.questions

    issued = answer(replaces=certificate.digest, after=YEAR * 0.7)
    plan = feature().plan(KEY, observed(secret, facts=(issued,), after=YEAR * 0.7))

    steps = {type(d.object).__name__: d.step for d in plan.desired}
    renewed = desired(plan, Secret)
    assert question.ask.id == issued.question
    assert steps == {"ValidatingWebhookConfiguration": 0, "Secret": 1}
    assert renewed.data[CERTIFICATE] != secret.data[CERTIFICATE]
    assert secret.data[AUTHORITY] in renewed.data[AUTHORITY]
    assert renewed.data[AUTHORITY].count(b"BEGIN CERTIFICATE") == 2


def test_the_authority_before_the_last_is_trusted_no_longer() -> None:
    first = stored(first_secret())
    certificate = read_certificate(first)
    assert certificate is not None
    later = observed(
        first, facts=(answer(replaces=certificate.digest, after=YEAR * 0.7),), after=YEAR * 0.7
    )
    second = stored(desired(feature().plan(KEY, later), Secret))
    again = read_certificate(second)
    assert again is not None
    last = observed(second, facts=(answer(replaces=again.digest, after=YEAR * 2),), after=YEAR * 2)

    third = desired(feature().plan(KEY, last), Secret)

    assert third.data[AUTHORITY].count(b"BEGIN CERTIFICATE") == 2
    assert first.data[AUTHORITY] not in third.data[AUTHORITY]


SPOILS = [
    pytest.param(lambda s: replace(s, data={}), id="emptied"),
    pytest.param(lambda s: replace(s, data={**s.data, CERTIFICATE: b"x"}), id="edited"),
    pytest.param(lambda s: replace(s, metadata=replace(s.metadata, annotations={})), id="unmarked"),
]


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_secret_that_somebody_tampered_with_is_replaced(spoil: Any) -> None:
    plan = feature().plan(KEY, observed(stored(spoil(first_secret()))))

    assert [q.ask.provider for q in plan.questions if isinstance(q.ask, Call)] == [PROVIDER]


def test_configurations_stay_while_a_lost_certificate_is_reissued() -> None:
    before = feature().plan(KEY, observed(facts=(answer(),)))
    current = stored(desired(before, ValidatingWebhookConfiguration))

    plan = feature().plan(KEY, observed(current))

    assert desired(plan, ValidatingWebhookConfiguration).webhooks == current.webhooks


@pytest.mark.parametrize("spoil", [None, *SPOILS])
def test_all_that_serves_webhooks_stays_while_a_lost_or_spoiled_certificate_is_reissued(
    spoil: Any,
) -> None:
    hosts = certificate_hosts(BY_SERVICE)
    before = feature(BY_SERVICE).plan(KEY, observed(facts=(answer(hosts),)))
    secret = desired(before, Secret)
    left = (stored(spoil(secret)),) if spoil else ()
    kept = [stored(d.object) for d in before.desired if not isinstance(d.object, Secret)]

    plan = feature(BY_SERVICE).plan(KEY, observed(*kept, *left))

    assert {type(d.object) for d in plan.desired} == {type(one) for one in (*kept, *left)}
    assert [d.object.data for d in plan.desired if isinstance(d.object, Secret)] == [
        one.data for one in left
    ], "it is overwritten by the new one, not deleted"


@pytest.mark.parametrize("change", [{"type": "Opaque"}, {"immutable": True}])
def test_a_spoiled_secret_that_no_update_can_mend_is_deleted(change: dict[str, Any]) -> None:
    spoiled = stored(replace(first_secret(), data={}, **change))

    assert feature().plan(KEY, observed(spoiled)).desired == ()


def test_an_agent_that_is_reached_by_a_url_keeps_no_service_while_it_waits() -> None:
    service = stored(
        desired(
            feature(BY_SERVICE).plan(KEY, observed(facts=(answer(certificate_hosts(BY_SERVICE)),))),
            Service,
        )
    )

    assert feature().plan(KEY, observed(service)).desired == ()


def test_without_a_url_the_configurations_name_a_service() -> None:
    options = BY_SERVICE
    hosts = certificate_hosts(options)

    plan = feature(options).plan(KEY, observed(facts=(answer(hosts),)))

    service = desired(plan, Service)
    (pods, _) = desired(plan, ValidatingWebhookConfiguration).webhooks
    assert service.spec.ports[0].target_port == 9443
    assert pods["clientConfig"]["service"]["path"] == "/guard"
    assert f"{NAME}.hanse-system.svc" in hosts.split(",")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://127.0.0.1:9443", "127.0.0.1"),
        ("https://[::1]:9443/x", "::1"),
        ("https://hanse.example", "hanse.example"),
    ],
)
def test_the_certificate_bears_the_host_of_the_url(url: str, host: str) -> None:
    assert certificate_hosts(AdmissionOptions(enabled=True, url=url)) == host


def test_where_webhooks_are_off_nothing_is_wanted() -> None:
    assert feature(AdmissionOptions()).plan(KEY, observed(stored(first_secret()))) == Plan()
