"""The guide to StatefulSets says what is true: its commands are run as they stand there."""

import re
import shutil
from pathlib import Path

from tests.cli.programs import hanse

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/statefulsets.md"


def test_the_walk_through_the_guide_works(tmp_path: Path) -> None:
    commands = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    shutil.copytree(ROOT / "examples/statefulset", tmp_path / "examples/statefulset")
    (tmp_path / "walk.sh").write_text("set -eu\n" + "\n".join(commands))

    result = hanse(
        *("up", "--clusters", "c1,c2,c3", "--no-sample", "--exec", "timeout 150 bash walk.sh"),
        cwd=tmp_path,
        patience=180,
    )

    assert result.status == 0, result.out + result.err
    assert "mynamespace/store  11/11 ready\n" in result.out
    assert "c1 4, c2 4, c3 3" in result.out
    assert re.search(
        r"c1 +~ update +StatefulSet mynamespace/store-c1 +the agent of c1\n", result.out
    )
    assert re.search(
        r"c3 +\+ create +Service mynamespace/store-c3-3 +the agent of c3\n", result.out
    )
    assert "store-c2 " not in result.out.partition("CHANGE ")[2].partition("scaled")[0]
    assert "c1 5, c2 4, c3 4" in result.out
    for cluster, count in (("c1", 5), ("c2", 4), ("c3", 4)):
        for n in range(count):
            name = f"store-{cluster}-{n}.etcd.mynamespace.myfederation.svc.example.com"
            assert f"0 50 80 {name}.\n" in result.out
    assert "each replica by its load balancer, in clusters that are alive" in result.out
    assert "c2 answers with its own ready replicas" in result.out
    assert "c2 cannot be heard" in result.out
    assert '"name":"c1","readyReplicas":4,"replicas":4' in result.out
    assert "etcd-store-store-c1-0" in result.out
    assert "cache-c2" in result.out
