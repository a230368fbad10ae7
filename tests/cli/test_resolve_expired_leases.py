"""Which Leases count as expired in a single read."""

from datetime import UTC, datetime, timedelta

import pytest

from hanse.cli.resolve.services import expired_leases
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def lease(cluster: str, *, age: float | None, holder: str = "somebody", lasts: int = 10) -> Lease:
    renewed = None if age is None else (NOW - timedelta(seconds=age)).isoformat()
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=lasts, renew_time=renewed)
    return Lease(metadata=LeaseMeta(name=cluster, namespace="hanse-broker"), spec=spec)


@pytest.mark.parametrize(
    ("late", "dead"),
    [
        pytest.param(lease("riga", age=11), ["riga"], id="not renewed in time"),
        pytest.param(lease("riga", age=9), [], id="renewed in time"),
        pytest.param(lease("riga", age=None), [], id="never renewed"),
        pytest.param(lease("riga", age=99, holder=""), [], id="nobody's"),
        pytest.param(lease("riga", age=99, lasts=100), [], id="a long one"),
        pytest.param(lease("riga", age=-60), [], id="a clock ahead of ours"),
    ],
)
def test_a_lease_that_was_not_renewed_in_time_has_run_out(late: Lease, dead: list[str]) -> None:
    expired = expired_leases([lease("bergen", age=1), late], NOW)

    assert [one.name for one in expired] == dead


def test_where_all_look_late_our_own_clock_is_as_likely_to_be_wrong() -> None:
    assert expired_leases([lease("bergen", age=60), lease("riga", age=61)], NOW) == []


def test_an_unreadable_renew_time_does_not_expire_a_lease() -> None:
    odd = Lease(
        metadata=LeaseMeta(name="riga"), spec=LeaseSpec(holder_identity="x", renew_time="yesterday")
    )

    assert expired_leases([lease("bergen", age=1), odd], NOW) == []
