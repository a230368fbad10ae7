"""Networks whose Service addresses come from a provider: what it is asked, and told."""

from typing import Any

from msgspec.structs import replace

from hanse.features.networks.external_ipam import RETRY_INTERVAL, provider_call
from hanse.features.networks.feature import Networks
from hanse.features.networks.options import NetworksOptions
from hanse.model.facts import Answer, Fact
from hanse.model.kinds.core import Service
from hanse.model.kinds.networks import Network
from hanse.model.plan import Call, Key, Plan
from hanse.model.snapshot import Snapshot
from tests.features.networks.builders import cidr, cluster_snapshot, network, service
from tinykube.virtual_time import EPOCH

FEATURE = Networks(NetworksOptions(providers=(("mizar", "http://127.0.0.1:1/"),)))
FAR = "acme.far"
DESCRIBED: Any = {"serviceCIDRs": ["10.60.0.0/24"], "dnsServiceIP": "10.60.0.10"}


def far(**status: Any) -> Network:
    return network(FAR, "mizar", vpcID="v-1", service={"ipam": "External"}, status=status)


def web(address: str = "10.60.0.4") -> Service:
    found = service(network="far")
    meta = replace(found.metadata, uid="u-1")
    return replace(found, metadata=meta, spec=replace(found.spec, cluster_ip=address))


def answer(call: Call, value: Any = None, error: str = "") -> Answer:
    return Answer(call.id, value, error, EPOCH)


def asked(plan: Plan, action: str) -> list[dict[str, Any]]:
    """The requests of a plan with an action."""
    calls = [dict(q.ask.arguments) for q in plan.questions if isinstance(q.ask, Call)]
    return [call for call in calls if call["action"] == action]


def seen(*objects: Any, facts: list[Fact] | None = None) -> Snapshot:
    return cluster_snapshot(cidr("10.96.0.0/16"), *objects, facts=facts or [])


def status_of(plan: Plan) -> dict[str, Any]:
    (patch,) = plan.patches
    status: dict[str, Any] = patch.change["status"]
    return status


def test_a_network_without_ranges_asks_for_them_and_keeps_what_it_was_told() -> None:
    plan = FEATURE.plan(Key("network", FAR), seen(far()))
    assert asked(plan, "describe") == [{"action": "describe", "network": FAR, "vpcID": "v-1"}]
    assert status_of(plan)["phase"] == "Pending"

    said = {"ranges": ["10.60.0.0/24", "rubbish"], "dnsServiceIP": "10.60.0.10"}
    facts: list[Fact] = [answer(provider_call(far(), "describe", vpcID="v-1"), said)]
    told = status_of(FEATURE.plan(Key("network", FAR), seen(far(), facts=facts)))

    assert told["serviceCIDRs"] == ["10.60.0.0/24"]
    assert told["dnsServiceIP"] == "10.60.0.10"
    later = FEATURE.plan(Key("network", FAR), seen(far(**DESCRIBED)))
    assert asked(later, "describe") == []
    assert status_of(later)["serviceCIDRs"] == ["10.60.0.0/24"]


def test_without_a_provider_to_ask_it_says_what_is_missing() -> None:
    ready = [
        {
            "type": "Provisioned",
            "status": "True",
            "reason": "a",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    given = far(dnsServiceIP="10.60.0.10", conditions=ready)

    status = status_of(Networks().plan(Key("network", FAR), seen(given)))

    assert status["phase"] == "Pending"
    assert "to name the ranges" in status["message"]


def test_a_service_is_confirmed_with_its_backends_and_again_if_that_failed() -> None:
    key = Key("service", "web", "acme-web")
    here = web()
    plan = FEATURE.plan(key, seen(far(**DESCRIBED), here))

    (request,) = asked(plan, "confirm")
    assert (request["address"], request["uid"], request["ports"]) == ("10.60.0.4", "u-1", ())
    (question,) = plan.questions
    assert isinstance(question.ask, Call)
    failed = seen(far(**DESCRIBED), here, facts=[answer(question.ask, error="no route")])
    assert FEATURE.plan(key, failed).requeue_after == RETRY_INTERVAL


def test_addresses_of_services_that_are_gone_are_released() -> None:
    held = [
        {"address": "10.60.0.4", "namespace": "acme-web", "service": "web", "uid": "u-1"},
        {"address": "10.60.0.5", "namespace": "acme-web", "service": "gone", "uid": "u-0"},
    ]
    facts: list[Fact] = [answer(provider_call(far(), "list"), {"addresses": held})]

    plan = FEATURE.plan(Key("addresses", FAR), seen(far(**DESCRIBED), web(), facts=facts))

    (release,) = asked(plan, "release")
    assert (release["address"], release["uid"]) == ("10.60.0.5", "u-0")
    assert len(asked(plan, "list")) == 1
    unknown = FEATURE.plan(Key("addresses", FAR), seen(far(**DESCRIBED), web()))
    assert asked(unknown, "release") == []


def test_the_api_servers_alias_has_an_address_of_the_provider() -> None:
    ready = replace(cidr("10.60.0.0/24", "acme.far-x"))
    plan = FEATURE.plan(Key("network", FAR), seen(far(**DESCRIBED), ready))

    (request,) = asked(plan, "allocate")
    assert request["service"] == "kubernetes-far"
    assert request["request"]
    names = [d.object.metadata.name for d in plan.desired if isinstance(d.object, Service)]
    assert "kubernetes-far" not in names


def test_a_network_ends_when_its_provider_holds_nothing_of_it() -> None:
    drained = [
        {
            "type": "Drained",
            "status": "True",
            "reason": "Unused",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    ends = far(**DESCRIBED, phase="Terminating", conditions=drained)
    ends = replace(ends, metadata=replace(ends.metadata, deletion_timestamp=EPOCH))

    waiting = FEATURE.plan(Key("network", FAR), seen(ends))
    facts: list[Fact] = [answer(provider_call(ends, "list"), {"addresses": []})]
    over = FEATURE.plan(Key("network", FAR), seen(ends, facts=facts))

    assert "take its addresses back" in status_of(waiting)["message"]
    assert over.patches[0].change == {"metadata": {"finalizers": None}}
