"""What a run leaves: words, JSON, the page and the chart."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from bench.chart import MOST, bars_of, svg
from bench.figures import AtLeast, AtMost, Figure, Result
from bench.machine import Machine
from bench.record import BEGIN, END, as_json, publish, with_results
from bench.row import Effort, Failed, Measured, Once, Row, Skip, Skipped, repeated
from bench.wording import goal_text, limit_text, measured_text, number, ratio_text

TIME = Figure("time", "s", AtMost(1.5), "bare client")
RATE = Figure("creates", "creates/s", AtLeast(500))
MACHINE = Machine(
    date="2026-01-01 00:00 UTC",
    command="python -m bench",
    commit="abc",
    cpu="A <fast> one",
    cores=2,
    memory_mib=2048,
    system="Debian",
    kernel="6.1",
    load_at_start=0.1,
    versions={"python": "3.11", "knot": ""},
)


@asynccontextmanager
async def counting(effort: Effort) -> AsyncIterator[Once]:
    runs = 0

    async def once() -> dict[str, float]:
        nonlocal runs
        runs += 1
        return {"time": 3.0 * runs, "bare client": 2.0 * runs, "creates": 1000.0}

    yield once


async def find_program() -> None:
    raise Skip("there is no such program")


@asynccontextmanager
async def absent(effort: Effort) -> AsyncIterator[Once]:
    async def once() -> dict[str, float]:
        raise AssertionError("what cannot run is not measured")

    await find_program()
    yield once


ROW = Row("share", "sharing", "a bare client", (TIME, RATE), counting)
MEASURED = Measured(
    ROW, (Result(TIME, (3.0, 9.0), (2.0, 3.0)), Result(RATE, (1000.0, 1100.0))), 4.2
)
SKIPPED = Skipped(ROW, "there is no such program")
FAILED = Failed(ROW, "it broke")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.5, "1.5"), (12.345, "12.3"), (3, "3"), (12345.6, "12,346")],
)
def test_numbers_have_as_many_digits_as_can_be_believed(value: float, text: str) -> None:
    assert number(value) == text


def test_a_result_is_told_with_its_spread_its_limit_and_its_ratio() -> None:
    time, rate = MEASURED.results

    assert measured_text(time) == "6 s ± 50%"
    assert limit_text(time) == "bare client: 2.5 s ± 20%"
    assert ratio_text(time) == "2.25 \N{MULTIPLICATION SIGN}"
    assert goal_text(time) == "≤ 1.5 \N{MULTIPLICATION SIGN}"
    assert (limit_text(rate), ratio_text(rate)) == ("", "")
    assert goal_text(rate) == "≥ 500 creates/s"


@pytest.mark.anyio
async def test_a_row_is_measured_as_often_as_was_asked_for() -> None:
    told: list[int] = []

    results = await repeated(ROW, Effort(repeats=3), told.append)

    assert told == [1, 2, 3]
    assert results[0].values == (3.0, 6.0, 9.0)
    assert results[0].limits == (2.0, 4.0, 6.0)


@pytest.mark.anyio
async def test_a_row_that_cannot_run_says_why() -> None:
    row = Row("share", "sharing", "a bare client", (TIME,), absent)

    with pytest.raises(Skip, match="there is no such program"):
        await repeated(row, Effort(), lambda _: None)


def test_the_file_of_a_run_holds_every_repeat_and_every_reason() -> None:
    kept = msgspec.json.decode(as_json(MACHINE, [MEASURED, SKIPPED, FAILED]))

    assert kept["machine"]["cpu"] == "A <fast> one"
    measured, skipped, failed = kept["rows"]
    time = measured["figures"][0]
    assert (time["values"], time["limits"], time["ratios"]) == ([3.0, 9.0], [2.0, 3.0], [1.5, 3.0])
    assert (time["goal"], time["verdict"]) == ({"type": "at most", "value": 1.5}, "missed")
    assert (skipped["ended"], skipped["reason"]) == ("skipped", "there is no such program")
    assert (failed["ended"], failed["reason"]) == ("failed", "it broke")


def test_the_page_keeps_everything_but_its_results(tmp_path: Path) -> None:
    page, chart = tmp_path / "page.md", tmp_path / "chart.svg"
    page.write_text(f"Before.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")

    publish(page, chart, MACHINE, [MEASURED, SKIPPED])

    text = page.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith("\n\nAfter.\n")
    assert "old" not in text
    assert "| share | creates | 1,050 creates/s ± 5% |  |  | ≥ 500 creates/s | met |" in text
    assert "| share | skipped: there is no such program |" in text


def test_a_page_without_a_place_for_results_is_not_touched() -> None:
    with pytest.raises(ValueError, match="no place for results"):
        with_results("Before.", "new")


def test_the_chart_is_an_image_with_one_bar_for_each_goal() -> None:
    drawn = ET.fromstring(svg(bars_of([MEASURED]), "a & b"))

    bars = drawn.findall("{http://www.w3.org/2000/svg}rect")
    assert [bar.attrib["class"] for bar in bars] == ["missed", "met"]
    longest, shortest = (float(bar.attrib["width"]) for bar in bars)
    assert longest / shortest == pytest.approx((2.25 / 1.5) / (500 / 1050), rel=0.01)
    assert "a & b" in "".join(drawn.itertext())


def test_a_bar_that_would_leave_the_chart_is_cut_off() -> None:
    far = Measured(ROW, (Result(RATE, (1.0,)),), 1.0)
    cut = Measured(ROW, (Result(RATE, (500 / MOST,)),), 1.0)

    assert _widths(far) == _widths(cut)


def _widths(measured: Measured) -> list[str]:
    drawn = ET.fromstring(svg(bars_of([measured]), ""))
    return [bar.attrib["width"] for bar in drawn.findall("{http://www.w3.org/2000/svg}rect")]
