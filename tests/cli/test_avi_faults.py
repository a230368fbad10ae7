"""A controller of Avi that refuses its password: all presentations say so, and whom to ask."""

import asyncio
import base64
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.faces import Faces
from tests.cli.fault_table import FUNCTIONS, Fault
from tests.cli.programs import running
from tests.cli.test_faults import nothing_is_wrong, play
from tests.providers.avi_server import PASSWORD, USER, AviServer

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl"),
    pytest.mark.skipif(not os.environ.get("HANSE_FAULTS"), reason="half a minute: make faults"),
]

CHANGE_PASSWORD = """
k lubeck -n avi-system patch secret gslb-avi-secret --type merge \
    -p '{"stringData": {"password": "%s"}}'
"""


@pytest.fixture
def avi() -> Iterator[AviServer]:
    """A controller in a thread of its own."""
    started: Future[AviServer] = Future()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with AviServer().running() as server:
            started.set_result(server)
            await stop.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield started.result(10)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_a_wrong_password_is_told_by_all_and_mended_by_who_knows_the_right_one(
    avi: AviServer, tmp_path: Path
) -> None:
    ca = base64.b64encode(avi.authority.certificate).decode()
    configure = f"""
    k lubeck -n avi-system create secret generic gslb-avi-secret --from-literal username={USER} \
        --from-literal password={PASSWORD} \
        --from-literal "certificateAuthorityData=$(base64 -d <<<{ca})"
    k lubeck -n avi-system patch gslbconfig gc-1 --type merge -p '{{"spec": {{"gslbLeader":
        {{"credentials": "gslb-avi-secret", "controllerIP": "127.0.0.1:{avi.port}"}},
        "refreshInterval": 1}}}}'
    """
    with running(tmp_path, "--clusters", "lubeck,hamburg", "--gslb-provider", "avi") as fleet:
        faces = Faces(fleet, tmp_path)
        faces.shell(FUNCTIONS + configure)
        nothing_is_wrong(faces)
        assert [one["name"] for one in avi.services.values()] == ["web.global.test"]

        fault = Fault(
            "ProviderFailed GSLBConfig avi-system/gc-1 in lubeck",
            CHANGE_PASSWORD % "wrong",
            asked=CHANGE_PASSWORD % PASSWORD,
        )
        play(faces, (fault,))
