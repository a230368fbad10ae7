"""How commands run: what lasts is not looked through again and again for garbage."""

import gc

from hanse.cli.running import run_async


async def left_alone() -> int:
    return gc.get_freeze_count()


def test_what_was_loaded_is_left_alone_while_a_service_lasts_and_no_longer() -> None:
    before = gc.get_freeze_count()

    assert run_async(left_alone, lasting=True) > before + 10_000
    assert run_async(left_alone) == gc.get_freeze_count() == 0
