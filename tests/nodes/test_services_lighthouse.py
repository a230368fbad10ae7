"""Services of the lighthouse profile carry connections, by DNS, where Services are routed."""

from collections.abc import Iterator

import pytest

from tests.nodes.fleet import NodesFleet
from tests.nodes.lighthouse import SPACE, LighthouseServices, create_services


@pytest.fixture(scope="module")
def lighthouse(routed: NodesFleet) -> Iterator[NodesFleet]:
    create_services(routed)
    yield routed
    routed.delete_namespace(SPACE)


class TestServicesOfAgents(LighthouseServices):
    """With agents and DNS of `hanse up`."""
