"""`hanse gslb` and the guide to global load balancing, against a federation that runs."""

import json
import re
import socket
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import dns.message
import dns.query
import pytest
import yaml

from tests.cli.programs import CommandResult, RunningFederation, eventually, hanse, running

EXAMPLES = Path(__file__).parent / "amko"
GUIDE = Path(__file__).parents[2] / "docs/guides/gslb.md"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    with running(tmp_path_factory.mktemp("fleet"), "--clusters", "rome,paris") as found:
        yield found


def _status(fleet: RunningFederation) -> dict[str, object]:
    result = fleet.run_hanse("gslb", "status", "--json")
    found: dict[str, object] = json.loads(result.out)
    return found


def _eventually_in_step(fleet: RunningFederation) -> dict[str, object]:
    def check() -> str:
        found.update(_status(fleet))
        in_step = not found["findings"] and _steps(found)[1:] == [("paris", True)]
        return "" if in_step else str(found)

    found: dict[str, object] = {}
    eventually(check)
    return found


def _steps(status: dict[str, object]) -> list[tuple[str, bool | None]]:
    clusters = status["clusters"]
    assert isinstance(clusters, list)
    return [(one["name"], one["inStep"]) for one in clusters]


def test_status_shows_the_leader_and_which_followers_are_in_sync(fleet: RunningFederation) -> None:
    found = _eventually_in_step(fleet)

    assert found["leaders"] == ["rome"]
    assert _steps(found) == [("rome", None), ("paris", True)]


def test_status_says_of_load_balancing_what_status_and_doctor_say(fleet: RunningFederation) -> None:
    _eventually_in_step(fleet)
    amko = "amkocluster-federation"
    lead = ("patch", "amkocluster", amko, "--type", "merge", "-p", '{"spec":{"isLeader":true}}')
    assert fleet.kubectl("--context", "paris", "-n", "avi-system", *lead).status == 0

    def of_both() -> list[list[object]]:
        all_of_it = json.loads(fleet.run_hanse("status", "--json").out)
        return [[one["findings"], one["globalHosts"]] for one in (_status(fleet), all_of_it)]

    try:
        eventually(lambda: "" if (both := of_both())[0] == both[1] and both[0][0] else f"{both}")
        result = fleet.run_hanse("gslb", "status")
    finally:
        assert fleet.run_hanse("gslb", "demote", "paris").status == 0

    assert result.status == 1
    assert " both lead the GSLB configuration" in result.out
    assert "mend it: hanse gslb demote " in result.out
    _eventually_in_step(fleet)


def test_a_promotion_is_refused_while_a_leader_can_be_reached(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("gslb", "promote", "paris")

    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "hanse: rome leads and can be reached; run `hanse gslb demote rome` first\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("promote", "oslo"),
            "there is no context 'oslo' in the kubeconfig; there is: rome, paris",
        ),
        (("promote", "rome", "--controller-ip", "x y"), "--controller-ip 'x y' is no IP address"),
        (("promote", "broker"), "broker has no AMKOCluster in avi-system; create it first"),
    ],
)
def test_bad_input_is_one_line_with_the_remedy(
    fleet: RunningFederation, arguments: tuple[str, ...], words: str
) -> None:
    result = fleet.run_hanse("gslb", *arguments)

    assert result.status == 2
    assert words in result.err
    assert result.err.count("\n") == 1


def test_a_dry_run_changes_nothing(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("gslb", "demote", "rome", "--dry-run")

    assert result.out.startswith("would make rome a follower\n")
    assert _status(fleet)["leaders"] == ["rome"]


def test_a_drained_site_is_answered_no_longer_until_it_is_back(fleet: RunningFederation) -> None:
    shop = "web.global.test"
    _await_answers(fleet, {"198.19.0.1"}, shop)

    assert fleet.run_hanse("gslb", "drain", "rome").status == 0
    _await_answers(fleet, {"198.19.1.1"}, shop)

    assert fleet.run_hanse("gslb", "drain", "rome", "--back").status == 0
    _await_answers(fleet, {"198.19.0.1"}, shop)


def test_objects_as_amko_documents_them_are_accepted_unchanged_or_translated(
    fleet: RunningFederation,
) -> None:
    current = fleet.kubectl("apply", "--dry-run=server", "-f", str(EXAMPLES / "current.yaml"))
    assert current.status == 0, current.err
    assert current.out.count("dry run") == 5

    translated = fleet.run_hanse("migrate", "amko", "-f", str(EXAMPLES / "earlier.yaml"))
    file = fleet.folder / "translated.yaml"
    file.write_text(translated.out)
    earlier = fleet.kubectl("apply", "--dry-run=server", "-f", str(file))

    assert earlier.status == 0, earlier.err
    assert earlier.out.count("dry run") == 3
    assert "# GSLBConfig earliest: spec.domainNames is no field any more" in translated.out


def test_the_walk_through_the_guide_works(tmp_path: Path) -> None:
    (tmp_path / "walk.sh").write_text("set -eu\n" + _commands("On your machine"))

    result: CommandResult = hanse(
        "up", "--exec", "timeout 150 bash walk.sh", cwd=tmp_path, patience=180
    )

    assert result.status == 0, result.out + result.err
    assert "6 198.19.0.1" in result.out
    assert "2 198.19.1.1" in result.out
    assert "make hamburg the leader" in result.out
    assert "oslo is no member cluster of the GSLBConfig" in result.out
    assert "hamburg and lubeck both lead" in result.out


def _commands(heading: str) -> str:
    """The shell blocks below a heading, one after the other."""
    (section,) = re.findall(
        rf"^## {heading}\n(.*?)(?=^## )", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def test_the_account_of_leaders_may_write_in_one_namespace_alone(tmp_path: Path) -> None:
    result = hanse("gslb", "rights", "--account", "boss", cwd=tmp_path)

    documents = list(yaml.safe_load_all(result.out))
    kinds = [d["kind"] for d in documents]
    assert "ValidatingAdmissionPolicy" in kinds
    assert [kind for kind in kinds if not kind.startswith("ValidatingAdmission")] == [
        *("Namespace", "ServiceAccount", "ClusterRole", "Role"),
        *("ClusterRoleBinding", "RoleBinding"),
    ]
    everywhere = next(d for d in documents if d["kind"] == "ClusterRole")
    verbs = {
        verb
        for rule in everywhere["rules"]
        if rule["resources"] != ["events"]
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch"}
    assert documents[-1]["subjects"][0]["name"] == "boss"


def test_a_member_whose_socket_is_closed_leaves_the_answers_and_comes_back(
    fleet: RunningFederation,
) -> None:
    first, port = _listening("127.0.0.5", 0)
    second, _ = _listening("127.0.0.6", port)
    monitor = {"type": "TCP", "port": str(port), "interval": "1", "up": "1", "down": "1"}
    spec = {
        "fqdn": "sockets.global.test",
        "healthMonitorTemplate": "quick",
        "controlPlaneHmOnly": False,
        "thirdPartyMembers": [{"vip": "127.0.0.5"}, {"vip": "127.0.0.6"}],
    }
    _apply(fleet, {"apiVersion": "v1", "kind": "ConfigMap", "data": monitor}, "quick")
    rule = {"apiVersion": "amko.vmware.com/v1alpha1", "kind": "GSLBHostRule", "spec": spec}
    _apply(fleet, rule, "sockets")
    try:
        _await_answers(fleet, {"127.0.0.5", "127.0.0.6"})
        first.close()
        _await_answers(fleet, {"127.0.0.6"})
        first, _ = _listening("127.0.0.5", port)
        _await_answers(fleet, {"127.0.0.5", "127.0.0.6"})
    finally:
        first.close()
        second.close()


def _listening(host: str, port: int) -> tuple[socket.socket, int]:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.listen(4096)  # nobody accepts, and every name server probes
    return made, made.getsockname()[1]


def _apply(fleet: RunningFederation, body: Mapping[str, object], name: str) -> None:
    file = fleet.folder / f"{name}.json"
    meta = {"name": name, "namespace": "avi-system"}
    file.write_text(json.dumps({**body, "metadata": meta}))
    result = fleet.kubectl("apply", "-f", str(file))
    assert result.status == 0, result.err


@cache
def _dns_address(fleet: RunningFederation) -> str:
    return str(json.loads(fleet.run_hanse("status", "--json").out)["dns"])


def _await_answers(
    fleet: RunningFederation, wanted: set[str], name: str = "sockets.global.test"
) -> None:
    host, _, port = _dns_address(fleet).partition(":")
    query = dns.message.make_query(name, "A")

    def check() -> str:
        answers = [dns.query.udp(query, host, port=int(port), timeout=5) for _ in range(8)]
        addresses = {rdata.address for one in answers for rrset in one.answer for rdata in rrset}
        return "" if addresses == wanted else f"{addresses} is answered, not {wanted}"

    eventually(check)
