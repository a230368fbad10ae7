"""The embedded cluster answers as a real API server does, which was asked the same before."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hanse.local.in_process import InProcess
from tests.differential.allowed import ALLOWED
from tests.differential.judging import judge
from tests.differential.playing import Outcome, Server, play
from tests.differential.recording import recorded
from tests.differential.requests import CASES
from tests.differential.vocabulary import Case
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import LoopClock, run
from tinykube.webhook_client import WebhookCall, WebhookFailed

RECORDED = recorded()
SERVICES = "10.0.0.0/16"


async def call_webhook(call: WebhookCall) -> bytes:
    try:
        return judge(urlsplit(call.url).path, call.body)
    except ValueError as error:
        raise WebhookFailed(str(error)) from error


async def embedded(case: Case) -> list[Outcome]:
    api = ApiServer("lubeck", clock=LoopClock(), service_range=SERVICES, call_webhook=call_webhook)
    server = Server(InProcess(api), SERVICES, bundle="TQ==")  # nobody verifies in process
    return await play(server, case, "differential")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_embedded_cluster_answers_as_a_real_one(case: Case) -> None:
    answers = run(embedded(case))

    if case.name in ALLOWED:
        assert answers != RECORDED[case.name], f"no longer so: {ALLOWED[case.name]}"
    else:
        assert answers == RECORDED[case.name]


def test_every_answer_that_was_recorded_is_asked_for() -> None:
    names = {case.name for case in CASES}

    assert set(RECORDED) == names
    assert set(ALLOWED) <= names


def test_every_difference_is_told_to_people() -> None:
    page = (Path(__file__).parents[2] / "docs" / "embedded-differences.md").read_text()

    assert [reason for reason in ALLOWED.values() if reason not in page] == []
