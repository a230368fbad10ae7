"""The embedded cluster gives the answers that were recorded from a real API server."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hanse.local.in_process import InProcessTransport
from tests.differential.all_cases import CASES
from tests.differential.allowed import ALLOWED
from tests.differential.cases import Case
from tests.differential.recording import recorded
from tests.differential.runner import NormalizedAnswer, Server, run_case
from tests.differential.webhook_answers import admission_response
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import LoopClock, run
from tinykube.webhook_client import WebhookCall, WebhookFailed

RECORDED = recorded()
SERVICES = "10.0.0.0/16"


async def call_webhook(call: WebhookCall) -> bytes:
    try:
        return admission_response(urlsplit(call.url).path, call.body)
    except ValueError as error:
        raise WebhookFailed(str(error)) from error


async def embedded(case: Case) -> list[NormalizedAnswer]:
    api = ApiServer("lubeck", clock=LoopClock(), service_range=SERVICES, call_webhook=call_webhook)
    server = Server(InProcessTransport(api), SERVICES, bundle="TQ==")  # nobody verifies in process
    return await run_case(server, case, "differential")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_embedded_cluster_answers_as_a_real_one(case: Case) -> None:
    answers = run(embedded(case))

    if case.name in ALLOWED:
        assert answers != RECORDED[case.name], f"no longer so: {ALLOWED[case.name]}"
    else:
        assert answers == RECORDED[case.name]


def test_every_recorded_answer_has_a_case() -> None:
    names = {case.name for case in CASES}

    assert set(RECORDED) == names
    assert set(ALLOWED) <= names


def test_every_allowed_difference_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "embedded-differences.md").read_text()

    assert [reason for reason in ALLOWED.values() if reason not in page] == []
