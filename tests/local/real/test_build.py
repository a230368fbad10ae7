"""Building programs: caching, progress, locking and failures.

The compiler is a shell script in the place of Go.
"""

import asyncio
import fcntl
import io
from pathlib import Path

import pytest

from hanse.local.real.binaries import cached
from hanse.local.real.build import find_or_build, main
from hanse.local.real.errors import BuildFailed
from hanse.local.real.programs import ALL, ETCD_SERVER, ETCDCTL, EXTRA, KWOK_CONTROLLER
from hanse.local.real.progress import PlainReport
from hanse.local.real.toolchain import find_go, new_enough
from tests.local.real.programs_on_disk import script

COMPILES = ('test "$1" = version && { echo go version go1.26.0; exit; }', "echo one/package >&2")
WRITES = ('while [ "$1" != -o ]; do shift; done', 'echo built > "$2"')


def go_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    script(tmp_path / "bin" / "go", *COMPILES, *lines)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


async def test_missing_programs_are_built_into_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_that(tmp_path, monkeypatch, *WRITES)
    output = io.StringIO()
    programs = (ETCD_SERVER, ETCDCTL, KWOK_CONTROLLER)

    paths = await find_or_build(programs, tmp_path / "cache", PlainReport(output, len(programs)))

    assert paths == {program.name: cached(program, tmp_path / "cache") for program in programs}
    assert all(path.read_text() == "built\n" for path in paths.values())
    assert "building etcd v3.6.5\n" in output.getvalue()
    assert "[3/3] built " in output.getvalue()


async def test_a_cached_program_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_that(tmp_path, monkeypatch, "echo must not be called >&2", "exit 1")
    built = script(cached(KWOK_CONTROLLER, tmp_path / "cache"), "echo built before")

    paths = await find_or_build([KWOK_CONTROLLER], tmp_path / "cache")

    assert paths == {"kwok": built}


async def test_a_failed_build_leaves_no_program_and_points_at_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_that(tmp_path, monkeypatch, *WRITES, "echo x.go:1: undefined: y >&2", "exit 1")
    cache = tmp_path / "cache"

    with pytest.raises(BuildFailed, match="building kwok failed") as failed:
        await find_or_build([KWOK_CONTROLLER], cache, PlainReport(io.StringIO(), 1))

    assert "undefined: y" in str(failed.value)
    assert str(cache / "logs" / "kwok-v0.7.0.log") in str(failed.value)
    assert list((cache / "kwok-v0.7.0").iterdir()) == []


def test_a_program_of_a_single_test_that_cannot_be_built_is_only_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = 'test "$1" = version && { echo go version go1.99.0; exit; }'
    script(tmp_path / "bin" / "go", version, "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["build"])
    for program in ALL:
        script(cached(program, tmp_path / "hanse"), "echo built before")

    main()

    out, error = capsys.readouterr()
    assert len(out.splitlines()) == len(ALL)
    assert f"{EXTRA[0].name} is missing, and its test is skipped" in error


async def test_a_second_build_waits_for_the_first_and_uses_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_that(tmp_path, monkeypatch, "exit 1")
    cache, output = tmp_path / "cache", io.StringIO()
    cache.mkdir()
    with (cache / "build.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = asyncio.create_task(
            find_or_build([KWOK_CONTROLLER], cache, PlainReport(output, 1))
        )
        while "waiting" not in output.getvalue():  # noqa: ASYNC110 - text has no event
            await asyncio.sleep(0)
        built = script(cached(KWOK_CONTROLLER, cache), "echo built by the first")

    assert await second == {"kwok": built}


@pytest.mark.parametrize(
    ("version_text", "expected"),
    [
        ("go version go1.26.8 linux/amd64", True),
        ("go version go1.25.0 linux/amd64", True),
        ("go version go1.24.9 linux/amd64", False),
        ("go version devel", False),
    ],
)
def test_a_go_must_be_new_enough_for_the_modules(version_text: str, expected: bool) -> None:
    assert new_enough(version_text, (1, 25)) is expected


async def test_go_on_the_path_is_used_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_that(tmp_path, monkeypatch)

    assert await find_go(tmp_path, (1, 25)) == tmp_path / "bin" / "go"
