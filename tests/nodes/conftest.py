"""Fleets with containers, one for each fabric; tests of one fabric follow each other.

A fleet starts when the first test wants it and ends before the next starts: idle ones take a core.
These tests run only when asked for (`-m nodes`), as root on Linux with containerd.
"""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest

from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.errors import NodesUnsupported
from hanse.local.real.nodes.image import Image, write_images
from hanse.local.real.nodes.support import require_support
from hanse.local.real.programs import ETCD_SERVER, ETCDCTL
from tests.nodes.fleet import NodesFleet
from tests.nodes.starting import CLUSTERS, starting

HERE = "tests/nodes/"
"""What the ids of these tests start with."""
ETCD_IMAGE = "hanse.dev/etcd:1"
FABRICS = ("flat", "isolated", "routed")
LOG_LINES = 40


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark these tests as `nodes`, skip them with a reason, or deselect them without a mark.

    Sorts them by fabric; those with fleets of their own are the first.
    """
    here = [item for item in items if item.nodeid.startswith(HERE)]
    reason = why_not()
    for item in here:
        item.add_marker(pytest.mark.nodes)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    items[:] = [item for item in items if item not in here]
    if config.option.markexpr:
        items += sorted(here, key=_fabric_index)
    else:
        config.hook.pytest_deselected(items=here)


def _fabric_index(item: pytest.Item) -> int:
    """The place of a test's fabric among FABRICS; -1 for tests with fleets of their own."""
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    wanted = {*item.fixturenames, *map(str, parameters)}
    return next((index for index, fabric in enumerate(FABRICS) if fabric in wanted), -1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what doctor says and the last lines of agents in pods to the report of a failed test."""
    report = yield
    if report.failed and call.when == "call" and isinstance(item, pytest.Function):
        fleets = [fleet for fleet in item.funcargs.values() if isinstance(fleet, NodesFleet)]
        for fleet in fleets[:1]:
            report.sections += list(_state_of(fleet))
    return report


def _state_of(fleet: NodesFleet) -> Iterator[tuple[str, str]]:
    """Sections of a report: what `hanse doctor` finds, and the logs of agents that are pods."""
    yield "hanse doctor", fleet.running.run_hanse("doctor").out
    agents = ("-n", "hanse-system", "logs", "-l", "app.kubernetes.io/name=hanse-agent")
    for cluster in fleet.clusters:
        logs = fleet.kubectl(cluster, *agents, "--timestamps", f"--tail={LOG_LINES}").out
        if logs:
            yield f"agent of {cluster}", logs


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
def shared() -> Iterator[ExitStack]:
    """Holds the fleet that runs, for tests of one fabric."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def routed(tmp_path_factory: pytest.TempPathFactory, shared: ExitStack) -> NodesFleet:
    """Pods and Services are routed; services follow lighthouse; nodes have names of their own."""
    shared.close()
    options = ("--no-sample", "--node-names", "distinct")
    return shared.enter_context(starting(tmp_path_factory.mktemp("routed"), "routed", *options))


@pytest.fixture(scope="session")
def flat(tmp_path_factory: pytest.TempPathFactory, shared: ExitStack) -> NodesFleet:
    """Pods only are routed; services follow KEP-1645; nodes have the same names."""
    shared.close()
    options = ("--no-sample", "--profile", "kep-1645")
    return shared.enter_context(starting(tmp_path_factory.mktemp("flat"), "flat", *options))


@pytest.fixture(scope="session")
def isolated(tmp_path_factory: pytest.TempPathFactory, shared: ExitStack) -> NodesFleet:
    """Neither is routed, only addresses of nodes and load balancers; the sample runs there.

    It has a third cluster, and an image of etcd.
    """
    folder = tmp_path_factory.mktemp("isolated")
    binaries = asyncio.run(find_or_build((ETCD_SERVER, ETCDCTL), cache_folder()))
    etcd = Image(ETCD_IMAGE, tuple(binaries.values()), ("/etcd",))
    write_images(folder / "etcd.tar", [etcd])
    names = (*CLUSTERS, "bergen")
    shared.close()
    return shared.enter_context(starting(folder, "isolated", "--image", "etcd.tar", names=names))
