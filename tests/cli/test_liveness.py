"""Which members count as alive in a single read: as for an agent that has just started."""

from datetime import UTC, datetime, timedelta

import pytest

from hanse.cli.liveness import judge_leases
from hanse.model.facts import HolderState
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec, ManagedFieldsEntry

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def lease(*, age: float | None, holder: str = "riga", lasts: int = 10, ahead: float = 0) -> Lease:
    """A Lease written so long ago by its server's clock, by a holder whose clock is off."""
    written = None if age is None else NOW - timedelta(seconds=age)
    renewed = None if written is None else (written + timedelta(seconds=ahead)).isoformat()
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=lasts, renew_time=renewed)
    fields = () if written is None else (ManagedFieldsEntry(time=written),)
    meta = LeaseMeta(name="riga", namespace="hanse-broker", managed_fields=fields)
    return Lease(metadata=meta, spec=spec)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        pytest.param(lease(age=9), HolderState.READY, id="renewed in time"),
        pytest.param(lease(age=9, ahead=-3600), HolderState.READY, id="by a clock behind"),
        pytest.param(lease(age=60, ahead=3600), HolderState.UNKNOWN, id="late by a clock ahead"),
        pytest.param(lease(age=12), HolderState.UNKNOWN, id="not renewed in time"),
        pytest.param(lease(age=None), HolderState.UNKNOWN, id="never written"),
        pytest.param(lease(age=1, holder=""), HolderState.UNKNOWN, id="nobody's"),
        pytest.param(lease(age=99, lasts=100), HolderState.READY, id="a long one"),
    ],
)
def test_a_holder_is_judged_by_the_servers_own_clock(found: Lease, state: HolderState) -> None:
    (judged,) = judge_leases([found], NOW)

    is_dated = bool(found.metadata.managed_fields)
    assert (judged.state, judged.outdated) == (state, state is HolderState.UNKNOWN and is_dated)
