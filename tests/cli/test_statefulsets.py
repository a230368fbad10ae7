"""`hanse statefulsets`: what is told of each replica, and bad words refused in a sentence."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.replica_name_options import parse_replica_names
from hanse.cli.statefulsets.history import History, Revision
from hanse.cli.statefulsets.replicas import set_view, sets_without_shares
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.model.kinds.stateful import (
    Replica,
    Share,
    StatefulSetPartSpec,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.objects import Meta
from tests.cli.programs import hanse

NAMES = StatefulSetOptions()


def shares(balanced: bool = True, **of: int) -> StatefulSetShares:
    spec = StatefulSetSharesSpec(
        shares=tuple(Share(name=c, replicas=n) for c, n in of.items()),
        service="etcd",
        load_balanced=balanced,
    )
    return StatefulSetShares(metadata=Meta(name="store", namespace="shop"), spec=spec)


def test_each_replica_is_shown_with_its_state_and_its_names() -> None:
    spec = StatefulSetPartSpec(
        namespace="shop",
        name="store",
        cluster="lubeck",
        share=2,
        replicas=(
            Replica(name="store-lubeck-0", ready=True, addresses=("198.19.0.1",)),
            Replica(name="store-lubeck-1"),
        ),
        trouble="no storage",
        waits="the roll-out comes here after bergen",
    )

    found = set_view(shares(bergen=1, hamburg=1, lubeck=2), [spec], frozenset({"bergen"}), NAMES)

    assert [(r.name, r.state) for r in found.replicas] == [
        ("store-bergen-0", "away"),
        ("store-hamburg-0", "missing"),
        ("store-lubeck-0", "ready"),
        ("store-lubeck-1", "not ready"),
    ]
    assert found.replicas[2].names == (
        "store-lubeck-0.etcd.shop.svc.example.com",
        "store-lubeck-0.etcd.shop.myfederation.svc.example.com",
    )
    assert (found.ready, found.trouble) == (1, ("lubeck: no storage",))
    assert found.waiting == ("lubeck: the roll-out comes here after bergen",)


def test_without_balancers_there_is_the_local_name_alone() -> None:
    found = set_view(shares(balanced=False, lubeck=1), [], frozenset(), NAMES)

    assert found.replicas[0].names == ("store-lubeck-0.etcd.shop.svc.example.com",)


def test_parts_of_sets_without_shares_are_reported() -> None:
    def part(name: str, cluster: str, **fields: Any) -> StatefulSetPartSpec:
        return StatefulSetPartSpec(namespace="shop", name=name, cluster=cluster, **fields)

    gone = datetime(2026, 5, 1, tzinfo=UTC)
    parts = [
        part("store", "lubeck", trouble="no storage"),
        part("lost", "lubeck", trouble="it runs on"),
        part("lost", "bergen", trouble="it runs on"),
        part("ended", "bergen", ended=gone),
    ]

    (found,) = sets_without_shares([shares(lubeck=1)], parts)

    assert (found.name, found.replicas) == ("lost", ())
    assert found.trouble == ("bergen: it runs on", "lubeck: it runs on")


def test_what_a_newer_hanse_made_is_not_guessed_at() -> None:
    record = shares(bergen=1, lubeck=1)
    newer = "made by a newer Hanse (form 3, this one reads 2); update this one"
    part = StatefulSetPartSpec(
        namespace="shop",
        name="store",
        cluster="lubeck",
        replicas=(Replica(name="store-lubeck-0", ready=True),),
        schema=3,
    )

    found = set_view(record, [part], frozenset(), NAMES)
    assert [r.state for r in found.replicas] == ["missing", "unknown"]
    assert found.trouble == (f"lubeck: its report: {newer}",)

    later = replace(record, spec=replace(record.spec, schema=3))
    found = set_view(later, [], frozenset(), NAMES)
    assert (found.replicas, found.trouble) == ((), (f"shares: {newer}",))


@pytest.mark.parametrize(
    ("zone", "federation", "words"),
    [
        pytest.param("a..b", "x", "--replica-zone: 'a..b' has a label", id="zone"),
        pytest.param("example.com", "a.b", "--federation 'a.b' is no part", id="dots"),
        pytest.param("example.com", "", "--federation '' is no part", id="empty"),
    ],
)
def test_bad_names_are_refused_in_a_sentence(zone: str, federation: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_replica_names(zone, federation)

    assert words in refused.value.message


def test_without_a_broker_it_says_what_to_name(tmp_path: Path) -> None:
    result = hanse("statefulsets", cwd=tmp_path)

    assert result.status == 2
    assert "start `hanse up`" in result.err or "kubeconfig" in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["store", "/store", "shop/", "shop/store/0"])
def test_other_text_than_namespace_and_name_is_refused_in_a_sentence(
    tmp_path: Path, name: str
) -> None:
    result = hanse("statefulsets", "restart", name, cwd=tmp_path)

    assert result.status == 2
    assert result.err == f"hanse: {name!r} is no set; write NAMESPACE/NAME, as shop/store\n"


def test_undo_chooses_by_itself_only_if_the_present_template_is_known() -> None:
    older, newer = (Revision(n, None, {"n": n}, is_present=False) for n in (1, 2))

    assert History("c1", (older, replace(newer, is_present=True))).choose(None) == older
    with pytest.raises(CommandFailed, match="--to-revision"):
        History("c1", (older, newer)).choose(None)
    assert History("c1", (older, newer)).choose(2) == newer
