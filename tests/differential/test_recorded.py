"""The embedded cluster answers as a real API server does, which was asked the same before."""

from urllib.parse import urlsplit

import pytest

from hanse.local.embedded.api import ApiServer, InProcess
from hanse.local.embedded.webhooks import WebhookCall, WebhookFailed
from hanse.testing.time import LoopClock, run
from tests.differential.judging import judge
from tests.differential.playing import Outcome, Server, play
from tests.differential.recording import recorded
from tests.differential.requests import CASES
from tests.differential.vocabulary import Case

RECORDED = recorded()
SERVICES = "10.0.0.0/16"


async def call_webhook(call: WebhookCall) -> bytes:
    try:
        return judge(urlsplit(call.url).path, call.body)
    except ValueError as error:
        raise WebhookFailed(str(error)) from error


async def embedded(case: Case) -> list[Outcome]:
    api = ApiServer("lubeck", clock=LoopClock(), service_range=SERVICES, call_webhook=call_webhook)
    return await play(Server(InProcess(api), SERVICES), case, "differential")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_embedded_cluster_answers_as_a_real_one(case: Case) -> None:
    answers = run(embedded(case))

    if case.differs:
        assert answers != RECORDED[case.name], f"no longer differs: {case.differs}"
    else:
        assert answers == RECORDED[case.name]


def test_every_answer_that_was_recorded_is_asked_for() -> None:
    assert set(RECORDED) == {case.name for case in CASES}
