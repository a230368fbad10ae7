"""Objects with invalid values: these are skipped, and the rest is answered."""

import pytest

from hanse.model.dns.zones import View
from tests.dns.builders import ZoneResolver, cluster_snapshot, endpoint_slice, imported, pod


@pytest.mark.parametrize(
    "bad", ["", "10.0.0", "not-an-address", "10.0.0.1\0", "fe80::1%eth0"], ids=repr
)
def test_an_address_that_is_none_is_left_out(bad: str) -> None:
    ask = ZoneResolver(
        cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", pod(bad), pod("10.2.0.1")))
    )

    assert ask().records == ("10.2.0.1",)


def test_names_that_no_label_can_hold_do_no_harm() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported("x" * 64),
        imported(ports=[("p" * 63, 80)]),
        endpoint_slice("b" * 64, "10.2.0.1"),
        endpoint_slice("bergen", pod("10.2.0.2", hostname="h" * 64)),
    )

    ask = ZoneResolver(observed, View("test", local="bergen"))

    assert ask().records == ("10.2.0.2",)
