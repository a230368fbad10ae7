"""Fleets with containers, one for each fabric; each starts when the first test wants it.

These tests run only when asked for (`-m nodes`), as root on Linux with containerd.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.errors import NodesUnsupported
from hanse.local.real.nodes.image import Image, write_images
from hanse.local.real.nodes.support import require_support
from hanse.local.real.programs import ETCD_SERVER, ETCDCTL
from tests.nodes.fleet import NodesFleet
from tests.nodes.starting import CLUSTERS, starting

HERE = Path(__file__).parent
ETCD_IMAGE = "hanse.dev/etcd:1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark these tests as `nodes`, skip them with a reason, or deselect them without a mark."""
    here = [item for item in items if HERE in item.path.parents]
    reason = why_not()
    for item in here:
        item.add_marker(pytest.mark.nodes)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    if not config.option.markexpr:
        config.hook.pytest_deselected(items=here)
        items[:] = [item for item in items if item not in here]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why nothing ran."""
    if (reason := why_not()) and terminalreporter.config.option.markexpr == "nodes":
        terminalreporter.write_line(f"no packet test ran: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skips some tests of nodes where they can run: all of them or none."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    here = [report for report in skipped if report.nodeid.startswith("tests/nodes/")]
    if here and not why_not():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def why_not() -> str:
    """Why nodes with containers cannot run here; empty if they can."""
    try:
        require_support()
    except NodesUnsupported as error:
        return str(error)
    return ""


@pytest.fixture(scope="session")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesFleet]:
    """Pods and Services are routed; services follow lighthouse; nodes have names of their own."""
    distinct = ("--node-names", "distinct")
    with starting(tmp_path_factory.mktemp("routed"), "routed", "--no-sample", *distinct) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesFleet]:
    """Pods only are routed; services follow KEP-1645; nodes have the same names."""
    folder = tmp_path_factory.mktemp("flat")
    with starting(folder, "flat", "--no-sample", "--profile", "kep-1645") as fleet:
        yield fleet


@pytest.fixture(scope="session")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesFleet]:
    """Neither is routed, only addresses of nodes and load balancers; the sample runs there.

    It has a third cluster, and an image of etcd.
    """
    folder = tmp_path_factory.mktemp("isolated")
    binaries = asyncio.run(find_or_build((ETCD_SERVER, ETCDCTL), cache_folder()))
    etcd = Image(ETCD_IMAGE, tuple(binaries.values()), ("/etcd",))
    write_images(folder / "etcd.tar", [etcd])
    names = (*CLUSTERS, "bergen")
    with starting(folder, "isolated", "--image", "etcd.tar", names=names) as fleet:
        yield fleet
