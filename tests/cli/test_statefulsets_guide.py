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


UNDO = """set -eu
export KUBECONFIG=$PWD/.hanse/kubeconfig
at() { kubectl --context broker -n mynamespace "$@"; }
sed -i 's/replicas: 11/replicas: 2/' examples/statefulset/store.yaml
kubectl --context broker apply -f examples/statefulset/store.yaml
at rollout status statefulset/store --timeout=60s
at set image statefulset/store '*=etcd:next'
at rollout status statefulset/store --timeout=60s
at rollout history statefulset/store
at rollout undo statefulset/store 2>&1 || true
hanse statefulsets history mynamespace/store
hanse statefulsets undo mynamespace/store
at rollout status statefulset/store --timeout=60s
kubectl --context c2 -n mynamespace get statefulset store-c2 -o jsonpath='{..image}'
hanse statefulsets undo mynamespace/store --to-revision 7 2>&1 || true

at patch statefulset store -p '{"spec":{"template":{"spec":{"nodeSelector":{"disk":"none"}}}}}'
at wait --for=condition=Updated=false --timeout=60s statefulset/store
at get statefulset store -o jsonpath='{.status.conditions[?(@.type=="Updated")].message}'; echo
until kubectl --context c2 -n mynamespace get controllerrevisions -o yaml | grep 'disk: none'; do
  sleep 0.2
done
hanse statefulsets undo mynamespace/store
at rollout status statefulset/store --timeout=60s
at rollout restart statefulset/store
at rollout status statefulset/store --timeout=60s
kubectl --context c1 -n mynamespace get pods -o yaml | sed -n 's/.*restartedAt:/restarted/p'

host() { kubectl --context c1 -n mynamespace "$@"; }
sed -i 's/replicas: 8/replicas: 2/' examples/statefulset/hosted.yaml
host apply -f examples/statefulset/hosted.yaml
host wait --for=condition=Ready --timeout=60s federatedstatefulset/cache
image=/spec/template/spec/template/spec/containers/0/image
host patch federatedstatefulset cache --type=json \\
  -p "[{\"op\": \"replace\", \"path\": \"$image\", \"value\": \"redis:next\"}]"
at_c2() { kubectl --context c2 -n mynamespace get controllerrevisions -o jsonpath='{..image}'; }
until at_c2 | grep redis:next; do sleep 0.2; done
hanse statefulsets undo mynamespace/cache --from c2
hanse statefulsets restart mynamespace/cache
host get federatedstatefulset cache -o jsonpath='hosted {.spec.template.spec.template}'
"""


def test_a_set_is_rolled_back_to_the_template_that_its_clusters_had(tmp_path: Path) -> None:
    check_roll_back(tmp_path)


def check_roll_back(folder: Path, *engine: str, env: dict[str, str] | None = None) -> None:
    """Update, restart and roll back sets of both doors, by kubectl where it can and by `hanse`."""
    shutil.copytree(ROOT / "examples/statefulset", folder / "examples/statefulset")
    (folder / "undo.sh").write_text(UNDO)

    result = hanse(
        *(
            "up",
            "--clusters",
            "c1,c2",
            "--no-sample",
            *engine,
            "--exec",
            "timeout 150 bash undo.sh",
        ),
        cwd=folder,
        env=env,
        patience=180,
    )

    assert result.status == 0, result.out + result.err
    assert "No rollout history found." in result.out, result.out
    assert "no last revision to roll back to" in result.out, result.out
    assert "to go back: hanse statefulsets undo mynamespace/store\n" in result.out, result.out
    assert re.search(r'^restarted "2\d{3}-', result.out, re.MULTILINE), result.out
    assert re.search(r"2 +\S+ +etcd:next +now\n", result.out), result.out
    before = re.search(r"template of revision 1 again \((.*)\)", result.out)
    assert before is not None, result.out
    assert result.out.count(before[1]) >= 3, "in the history, by undo, and in the cluster"
    assert re.search(r"template of revision 3 again", result.out), (
        "of c2, which alone has the bad one"
    )
    assert "c1 has no revision 7; see `hanse statefulsets history`" in result.out
    assert "mynamespace/cache has the template of revision 1 again (redis:8)" in result.out
    hosted = result.out.rpartition("hosted ")[2]
    assert '"image":"redis:8"' in hosted, result.out
    assert "restartedAt" in hosted, result.out
