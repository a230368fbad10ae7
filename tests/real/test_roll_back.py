"""`kubectl rollout` and `hanse statefulsets undo` over real servers."""

import asyncio
import os
from pathlib import Path

from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.programs import CLUSTER
from tests.cli.test_statefulsets_guide import check_roll_back


def test_a_set_is_rolled_back_to_the_template_that_its_clusters_had(tmp_path: Path) -> None:
    asyncio.run(find_or_build(CLUSTER, cache_folder()))
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")

    check_roll_back(tmp_path, "--engine", "kubernetes", env={"XDG_CACHE_HOME": cache})
