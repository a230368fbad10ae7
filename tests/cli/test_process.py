"""The garbage collector and the event loop of long-running commands."""

import ctypes
import gc
import subprocess
import sys

import pytest

from hanse.cli.process import run_async


async def left_alone() -> int:
    return gc.get_freeze_count()


def test_what_was_loaded_is_left_alone_while_a_service_lasts_and_no_longer() -> None:
    loaded = [[number] for number in range(20_000)]
    before = gc.get_freeze_count()
    try:
        assert run_async(left_alone, long_running=True) > before + len(loaded) // 2
        assert run_async(left_alone) == gc.get_freeze_count() == 0
    finally:
        gc.freeze()  # as it was: what was collected is not to be traversed in later tests


async def looked_for_after() -> int:
    return gc.get_threshold()[0]


def test_a_service_looks_for_garbage_seldom_and_a_command_as_before() -> None:
    ours = gc.get_threshold()  # that of tests is far above Python's own
    usual = (700, 10, 10)
    gc.set_threshold(*usual)
    try:
        assert run_async(looked_for_after, long_running=True) > usual[0]
        assert run_async(looked_for_after) == usual[0]
        assert gc.get_threshold() == usual
    finally:
        gc.set_threshold(*ours)


PAGES_OF_ITS_OWN = """
import ctypes, sys
from hanse.cli.process import run_async

class Told(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Told

async def large_buffers_apart():
    del bytearray(8 << 20)[:]  # a larger one comes and goes, which raises what glibc calls large
    before = libc.mallinfo2().hblks
    kept = [bytearray(256 * 1024) for _ in range(4)]
    return libc.mallinfo2().hblks - before

print(run_async(large_buffers_apart, long_running=sys.argv[1] == "lasting"))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs a recent glibc")
@pytest.mark.parametrize(("how", "apart"), [("lasting", 4), ("short", 0)])
def test_the_large_buffers_of_a_service_go_back_to_the_system(how: str, apart: int) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", PAGES_OF_ITS_OWN, how], capture_output=True, text=True, check=True
    )

    assert int(completed.stdout) == apart
