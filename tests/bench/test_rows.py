"""The rows themselves, as far as they can be looked at without measuring."""

import os

import pytest
from bench.figures import percentile
from bench.object_waiter import ObjectWaiter
from bench.processes import apart, most_resident, resident
from bench.row import Row
from bench.rows import gslb
from bench.rows.every import ROWS
from bench.rows.in_process import sharing_in_process
from bench.toy_load import is_complete, looks

from hanse.local.real.fleet import NAMES
from hanse.model.kinds.core import ConfigMap
from tests.support.builders import annotated, configmap
from tests.support.toy import OFFER, OFFERED

pytestmark = pytest.mark.anyio


def test_no_two_rows_have_one_name() -> None:
    names = [row.name for row in ROWS]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_two_figures_of_a_row_have_one_name(row: Row) -> None:
    names = [figure.name for figure in row.figures]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("seen", "complete"),
    [
        pytest.param(configmap("copy-of-a", lubeck="", bergen=""), True, id="copy of two"),
        pytest.param(configmap("copy-of-a", lubeck=""), False, id="copy of one"),
        pytest.param(configmap("sum.bench.a", clusters="bergen,lubeck"), True, id="sum of two"),
        pytest.param(configmap("sum.bench.a", clusters="bergen"), False, id="sum of one"),
        pytest.param(configmap("receipt-of-a", **{"from": "a,b"}), True, id="receipt of two"),
        pytest.param(configmap("anything"), True, id="what is not shared"),
    ],
)
def test_an_object_is_complete_when_it_names_every_cluster(seen: ConfigMap, complete: bool) -> None:
    assert is_complete(seen, 2) is complete


def test_an_offer_is_complete_when_it_is_annotated_so() -> None:
    offer = configmap("a")
    offer.metadata.labels[OFFER] = ""

    assert not is_complete(offer, 1)
    assert is_complete(annotated(offer, {OFFERED: "yes"}), 1)


async def test_whoever_waits_for_names_goes_on_with_the_last_of_them() -> None:
    sight = ObjectWaiter(looks(1)[NAMES[0]])
    sight.take(configmap("a"))

    await sight.until({"a"})
    waiting = sight.until({"a", "b"})
    sight.take(configmap("b"))

    await waiting


async def test_a_measurement_has_a_process_of_its_own() -> None:
    assert await apart(os.getpid) != os.getpid()


async def test_a_failed_measurement_is_reported() -> None:
    with pytest.raises(RuntimeError, match="percentile broke in its process"):
        await apart(percentile, (), 0.5)


def test_memory_is_never_more_than_the_most_there_was() -> None:
    assert 1 < resident() <= most_resident()


def test_what_is_shared_in_process_takes_one_write_for_each_object() -> None:
    shared = sharing_in_process(3)

    assert shared["objects"] == 3 * 16
    assert shared["writes"] >= shared["objects"]
    assert shared["bare client"] > 0


def test_the_row_of_global_hosts_plans_every_one_of_them() -> None:
    seen = gslb._seen(5)

    assert gslb._planned(seen) >= 0
