"""The one policy: what is retried, and after how long."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.kube.errors import (
    AlreadyExists,
    ApiError,
    BadCredentials,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Status,
    Throttled,
    UndecodableObject,
    Unreachable,
)
from hanse.kube.retry import retry_delay


def make(error: type[KubeError]) -> KubeError:
    return error(Status(code=1)) if issubclass(error, ApiError) else error("why")


RETRIED = [
    Unreachable,
    BadCredentials,
    AlreadyExists,
    Conflict,
    Gone,
    Forbidden,
    Throttled,
    ServerError,
]


@pytest.mark.parametrize("error", [Invalid, NotFound, UndecodableObject])
def test_what_cannot_succeed_as_it_is_is_not_retried(error: type[KubeError]) -> None:
    assert retry_delay(make(error), 0, Random(1)) is None


@given(
    st.sampled_from(RETRIED), st.integers(min_value=0, max_value=10_000), st.integers(0, 1 << 32)
)
def test_no_delay_is_negative_or_longer_than_half_a_minute(
    error: type[KubeError], attempt: int, seed: int
) -> None:
    delay = retry_delay(make(error), attempt, Random(seed))

    assert delay is not None
    assert timedelta(0) < delay <= timedelta(seconds=30)


def test_a_conflict_is_retried_sooner_than_an_outage_and_missing_rights_later() -> None:
    conflict, outage, rights = (
        retry_delay(make(error), 0, Random(1)) for error in (Conflict, Unreachable, Forbidden)
    )

    assert conflict is not None
    assert outage is not None
    assert rights is not None
    assert conflict < outage < rights


@pytest.mark.parametrize("error", [Throttled, ServerError])
def test_the_servers_retry_after_is_honoured(error: type[ApiError]) -> None:
    throttled = error(Status(code=1), timedelta(seconds=17))

    delay = retry_delay(throttled, 0, Random(1))

    assert delay is not None
    assert timedelta(seconds=17) <= delay < timedelta(seconds=18)
