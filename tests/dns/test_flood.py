"""Rate limits with real packets: a server off loopback, in a network namespace of its own."""

import asyncio
import shutil
import subprocess
import sys

import msgspec
import pytest

from tests.dns.flood import ADDRESS, ASKED, LIMIT, QUERY, SOURCES, Flooded

pytestmark = pytest.mark.skipif(
    shutil.which("unshare") is None
    or shutil.which("ip") is None
    or subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs network namespaces of its own (unshare, ip)",
)


async def flooded() -> Flooded:
    addresses = (
        "ip link set lo up",
        f"ip addr add {ADDRESS}/32 dev lo",
        *(f"ip route add local {network} dev lo" for network in SOURCES),
    )
    command = " && ".join((*addresses, f"exec {sys.executable} -m tests.dns.flood"))
    process = await asyncio.create_subprocess_exec(
        *("unshare", "-rn", "sh", "-c", command),
        stdout=asyncio.subprocess.PIPE,
        env={
            "PYTHONPATH": ":".join(path for path in sys.path if path),
            "PATH": "/usr/bin:/sbin:/bin",
        },
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return msgspec.json.decode(output, type=Flooded)


@pytest.mark.anyio
async def test_networks_over_the_rate_limit_are_sent_to_tcp_and_others_are_answered() -> None:
    result = await flooded()

    one = result.one
    seconds = 1 + one.whole // LIMIT  # a busy machine may spread the flood over several
    assert LIMIT <= one.whole <= LIMIT * seconds < ASKED
    dropped = ASKED - one.whole
    assert one.limited == dropped
    assert abs(one.truncated - dropped / 2) <= seconds, "every second one hears that there is more"
    assert one.longest_truncated <= len(QUERY), "nobody is amplified"
    assert result.whole_by_tcp, "by TCP the answer is complete"
    many = result.many
    assert many.quiet_answered == many.quiet_asked, "who asks little is answered during a flood"
    most = LIMIT * (int(many.seconds) + 2)
    assert 0 < many.least <= many.most <= most, "each network has a limit of its own"
