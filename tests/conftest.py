"""Tests are async on asyncio; modules on virtual time override `anyio_backend`.

`--engine` says on which clusters scenarios are played, and the real fleet is shared by all who
need one.
"""

import gc
import os
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.real.shared_fleet import binaries, real_clusters
from tests.scenarios.engines import ENGINES

__all__ = ["binaries", "real_clusters"]

LONG = frozenset(
    {
        "test_differential.py",
        "test_federated.py",
        "test_federated_outages.py",
        "test_gslb_federation.py",
        "test_gslb_hosts.py",
        "test_kills.py",
        "test_policies.py",
        "test_simulator.py",
        "test_statefulsets.py",
        "test_supervision.py",
    }
)
"""What takes a minute or more on real clusters."""


# How fast a noisy machine draws examples is no property of what they are examples of.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A test of the same tree has the same examples; `--hypothesis-profile search` draws fresh ones.
settings.register_profile("hanse", settings.get_profile("search"), derandomize=True)
settings.load_profile("hanse")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        choices=tuple(ENGINES),
        default="embedded",
        help="what clusters scenarios are played on: embedded (default) or kubernetes",
    )
    parser.addoption(
        "--latency",
        type=int,
        metavar="SEED",
        help="random latencies of requests and events where scenarios are played on embedded ones",
    )
    parser.addoption(
        "--rights",
        action="store_true",
        help="list rights that agents are given in their own clusters and no scenario uses",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "needs(what): skipped on engines without it (rbac, vap, address-admission, scheduler)",
    )
    config.addinivalue_line(
        "markers", "virtual: lasts in real time and says nothing new there; only embedded"
    )


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than processors: a third of what commands take is waiting for something."""
    return (os.cpu_count() or 1) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import a part of the test modules, so that each worker rewrites the asserts of a part alone.

    The rest is read from the caches that the other workers write meanwhile.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    root = Path(__file__).parents[1]
    number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    modules = sorted(file.relative_to(root) for file in root.glob("tests/**/test_*.py"))
    for module in modules[number::workers]:
        import_module(".".join(module.with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, or one worker is left alone with one at the end."""
    if config.getoption("--engine") == "kubernetes":
        items.sort(key=lambda item: item.path.name not in LONG)


def pytest_collection_finish() -> None:
    """Leave what was collected to itself: each later garbage collection would walk all of it.

    Later ones are rare, since a scenario makes many objects that live as long as it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(400_000, 20, 20)


@pytest.fixture
def anyio_backend() -> object:
    return "asyncio"
