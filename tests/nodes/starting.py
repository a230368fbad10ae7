"""Starts federations of clusters with containers."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.programs import CLUSTER, KUBECTL, NODE
from tests.cli.programs import running
from tests.nodes.fleet import NodesFleet

CLUSTERS = ("lubeck", "hamburg")

Fabric = Literal["routed", "flat", "isolated"]


@contextmanager
def starting(
    folder: Path, fabric: Fabric, *arguments: str, names: tuple[str, ...] = CLUSTERS
) -> Iterator[NodesFleet]:
    """A federation of clusters with containers."""
    asyncio.run(find_or_build((*CLUSTER, *NODE, KUBECTL), cache_folder()))
    options = ("--engine", "kubernetes", "--nodes", "containers", "--fabric", fabric)
    clusters = ("--clusters", ",".join(names))
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    with running(folder, *options, *clusters, *arguments, env={"XDG_CACHE_HOME": cache}) as found:
        yield NodesFleet(found, names)
