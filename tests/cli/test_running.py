"""How commands run: what lasts is not looked through again and again for garbage."""

import gc

from hanse.cli.running import run_async


async def left_alone() -> int:
    return gc.get_freeze_count()


def test_what_was_loaded_is_left_alone_while_a_service_lasts_and_no_longer() -> None:
    before = gc.get_freeze_count()

    assert run_async(left_alone, lasting=True) > before + 10_000
    assert run_async(left_alone) == gc.get_freeze_count() == 0


async def looked_for_after() -> int:
    return gc.get_threshold()[0]


def test_a_service_looks_for_garbage_seldom_and_a_command_as_python_does() -> None:
    usual = gc.get_threshold()

    assert run_async(looked_for_after, lasting=True) > usual[0]
    assert run_async(looked_for_after) == usual[0]
    assert gc.get_threshold() == usual
