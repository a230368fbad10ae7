"""`hanse export` against agents that run, and where none does."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.cli.programs import RunningFederation, eventually, running


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Two clusters with a Service `web` on the same port, and `db` on different ones."""
    arguments = ("--clusters", "rome,paris", "--no-sample")
    with running(tmp_path_factory.mktemp("fleet"), *arguments) as found:
        for cluster, port in (("rome", "5432"), ("paris", "5433")):
            inside = ("--context", cluster, "-n", "shop")
            found.kubectl("--context", cluster, "create", "namespace", "shop")
            found.kubectl(*inside, "create", "deployment", "web", "--image=web")
            found.kubectl(*inside, "expose", "deployment", "web", "--port=80")
            found.kubectl(*inside, "expose", "deployment", "web", "--name=db", f"--port={port}")
            rolled = found.kubectl(*inside, "rollout", "status", "deployment/web", "--timeout=90s")
            assert rolled.status == 0, rolled.err
        yield found


def test_an_export_is_made_and_its_result_shown(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("export", "web", "-n", "shop")

    assert result.status == 0, result.err
    assert result.out == (
        "shop/web is exported by rome\n"
        "  type       ClusterSetIP\n"
        "  ports      80/TCP\n"
        "  endpoints  rome 1/1 ready\n"
        "  name       web.shop.svc.clusterset.local\n"
    )


def test_exporting_again_updates_the_options(fleet: RunningFederation) -> None:
    fleet.run_hanse("export", "web", "-n", "shop")

    wishes = ("--weight", "3", "--priority", "10", "--to-clusters", "rome")
    result = fleet.run_hanse("export", "web", "-n", "shop", *wishes)
    annotations = _annotations(fleet)
    fleet.run_hanse("export", "web", "-n", "shop", "--to-clusters", "")

    kept = {"services.hanse.dev/weight": "3", "services.hanse.dev/priority": "10"}
    assert result.status == 0, result.err
    assert annotations == {**kept, "services.hanse.dev/to-clusters": "rome"}
    assert _annotations(fleet) == kept


def _annotations(fleet: RunningFederation) -> dict[str, str]:
    found = fleet.kubectl("-n", "shop", "get", "serviceexport", "web", "-o", "json")
    annotations: dict[str, str] = json.loads(found.out)["metadata"].get("annotations", {})
    return annotations


def test_a_conflict_is_explained_and_fails(fleet: RunningFederation) -> None:
    fleet.run_hanse("export", "db", "-n", "shop")

    result = fleet.run_hanse("export", "db", "-n", "shop", "--context", "paris")

    assert result.status == 1
    assert result.out.startswith("shop/db is exported by paris, rome\n")
    assert "\n! PortConflict: " in result.out
    assert "5432" in result.out


def test_status_shows_every_service_with_its_conflicts(fleet: RunningFederation) -> None:
    for cluster in ("rome", "paris"):
        fleet.run_hanse("export", "db", "-n", "shop", "--context", cluster)

    both = ["paris", "rome"]

    def conflict_of_both() -> str:
        services = json.loads(fleet.run_hanse("status", "--json").out)["services"]
        (db,) = [one for one in services if one["name"] == "db"]
        all_said = (
            db["exporters"] == db["importers"] == both
            and db["endpoints"] == {name: {"ready": 1, "all": 1} for name in both}
            and {one["cluster"] for one in db["problems"]} == set(both)
        )
        return "" if all_said else str(db)

    eventually(conflict_of_both)
    shown = fleet.run_hanse("status")

    assert "shop/db" in shown.out
    assert "outage PortConflict: the export of shop/db" in shown.out


def test_a_program_reads_the_result(fleet: RunningFederation) -> None:
    status = json.loads(fleet.run_hanse("export", "web", "-n", "shop", "--json").out)

    assert status["exported"] is True
    assert status["ports"] == [{"name": "", "port": 80, "protocol": "TCP", "appProtocol": ""}]
    assert status["endpoints"]["rome"] == {"ready": 1, "all": 1}


def test_nobody_has_to_wait(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("export", "web", "-n", "shop", "--no-wait")

    assert result.status == 0
    assert result.out == "shop/web is to be exported by rome; see `hanse status`\n"


def test_an_unreachable_broker_is_reported(fleet: RunningFederation) -> None:
    fleet.kubectl("-n", "shop", "expose", "deployment", "web", "--name=cut", "--port=1")
    fleet.run_hanse("local", "cut", "rome", "broker")
    blind = re.compile(
        "^! the agent of rome does not see broker as it is now: Unreachable: "
        ".*broker does not answer rome",
        re.MULTILINE,
    )
    try:
        result = fleet.run_hanse("export", "cut", "-n", "shop", "--timeout", "4")
        eventually(lambda: "" if blind.search(shown := fleet.run_hanse("status").out) else shown)
    finally:
        fleet.run_hanse("local", "heal", "--all")

    assert result.status == 1
    assert result.out.startswith("shop/cut is not exported by rome\n! Pending: ")


def test_where_no_agent_runs_the_remedy_is_printed(fleet: RunningFederation) -> None:
    service = ("create", "service", "clusterip", "alone", "--tcp=80")
    fleet.kubectl("--context", "broker", "-n", "default", *service)

    result = fleet.run_hanse("export", "alone", "-n", "default", "--context", "broker")

    assert result.status == 1
    assert result.err == (
        "waiting up to 30 s for the agent of broker\n"
        "hanse: the ServiceExport is made, but no agent has ever run in broker; "
        "start it with `hanse agent --context broker`, see `hanse doctor`\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("none", "-n", "shop"),
            "hanse: there is no Service none in namespace shop of rome; create it, or say",
            id="no Service",
        ),
        pytest.param(
            ("", "-n", "shop"), "hanse: name the Service to export, such as web", id="no name"
        ),
        pytest.param(
            ("shop/web",),
            "hanse: 'shop/web' is no name of a Service; write web -n shop",
            id="a namespace in the name",
        ),
        pytest.param(
            ("kubernetes", "-n", "default"),
            "hanse: the API server's own Service is never exported; name another than",
            id="the API server",
        ),
        pytest.param(
            ("web", "--to-clusters", "Ro me"),
            "hanse: --to-clusters: 'Ro me' is no cluster id; name them as lubeck,hamburg",
            id="a bad cluster",
        ),
        pytest.param(
            ("web", "--weight", "-1"),
            "hanse export: invalid value for '--weight'",
            id="a bad weight",
        ),
    ],
)
def test_bad_input_is_one_line(
    fleet: RunningFederation, arguments: tuple[str, ...], message: str
) -> None:
    result = fleet.run_hanse("export", *arguments)

    assert result.status == 2
    assert result.err.startswith(message)
    assert result.err.count("\n") == 1


def test_a_service_without_endpoints_of_its_own_is_refused(fleet: RunningFederation) -> None:
    fleet.kubectl(*("create", "service", "externalname", "out"), "--external-name=example.org")

    result = fleet.run_hanse("export", "out")

    assert result.status == 2
    assert "default/out is of type ExternalName and has no endpoints; export one" in result.err
