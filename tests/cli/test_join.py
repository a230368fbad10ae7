"""`hanse join`: what it makes on both sides, and what it refuses."""

import base64
import json
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hanse.cli.inventory import credentials_expiry
from hanse.kube.client_config import Identity
from tests.cli.programs import CommandResult, RunningFederation, running


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Three clusters without a part in the fleet that is formed here."""
    arguments = ("--clusters", "rome,paris,pisa", "--no-sample", "--no-federation")
    with running(tmp_path_factory.mktemp("fleet"), *arguments) as found:
        result = found.run_hanse("broker", "init", "--context", "broker", "--namespace", "league")
        assert result.status == 0, result.err
        yield found


def _join(fleet: RunningFederation, cluster: str, *more: str, context: str = "") -> CommandResult:
    return fleet.run_hanse(
        *("join", "--broker", "broker", "--broker-namespace", "league"),
        *("--cluster-id", cluster, "--context", context or cluster, *more),
    )


@pytest.fixture(scope="module")
def joined(fleet: RunningFederation) -> CommandResult:
    """What was told when rome joined, without a role that the local federation had made."""
    fleet.kubectl("--context", "rome", "delete", "clusterrole", "hanse-agent")
    return _join(fleet, "rome")


def _kubeconfig(fleet: RunningFederation, cluster: str) -> Any:
    path = "jsonpath={.data.kubeconfig}"
    get = ("--context", cluster, "-n", "hanse-system", "get", "secret", "hanse-broker", "-o", path)
    return json.loads(base64.b64decode(fleet.kubectl(*get).out))


def test_it_prints_what_it_created_where_and_how_the_agent_is_started(
    joined: CommandResult,
) -> None:
    assert joined.status == 0, joined.err
    assert "broker: created ServiceAccount league-accounts/rome\n" in joined.out
    assert "broker: created Lease league/rome\n" in joined.out
    assert "rome: created ClusterRole hanse-agent\n" in joined.out
    assert "rome: created Secret hanse-system/hanse-broker\n" in joined.out
    assert joined.out.endswith(
        "  hanse agent --cluster-id rome --context rome "
        "--broker-kubeconfig rome-broker.kubeconfig --broker-namespace league\n"
    )


def test_the_agent_is_that_account_on_the_broker(
    fleet: RunningFederation, joined: CommandResult
) -> None:
    way = fleet.folder / "way"
    way.write_text(json.dumps(_kubeconfig(fleet, "rome")))

    who = fleet.kubectl("--kubeconfig", str(way), "auth", "whoami", "-o", "json")

    assert who.status == 0, who.err
    user = json.loads(who.out)["status"]["userInfo"]["username"]
    assert user == "system:serviceaccount:league-accounts:rome"


def test_no_secret_is_ever_printed(fleet: RunningFederation, joined: CommandResult) -> None:
    token = _kubeconfig(fleet, "rome")["users"][0]["user"]["token"]

    dry = _join(fleet, "rome", "--dry-run", "--broker-server", "https://elsewhere:6443")

    assert "# rome: would change Secret hanse-system/hanse-broker\n" in dry.out
    assert token not in dry.out + joined.out
    assert "\ndata:" not in dry.out


def test_joining_again_changes_nothing(fleet: RunningFederation, joined: CommandResult) -> None:
    again = _join(fleet, "rome")

    assert again.out.startswith("broker: nothing to change\nrome: nothing to change\n")


def test_a_token_that_the_broker_no_longer_knows_is_renewed(
    fleet: RunningFederation, joined: CommandResult
) -> None:
    before = _kubeconfig(fleet, "rome")
    fleet.kubectl(
        "--context", "broker", "-n", "league-accounts", "delete", "serviceaccount", "rome"
    )

    again = _join(fleet, "rome")

    assert "broker: created ServiceAccount league-accounts/rome\n" in again.out
    assert "rome: changed Secret hanse-system/hanse-broker\n" in again.out
    assert _kubeconfig(fleet, "rome") != before


def test_a_token_lasts_a_week_unless_asked_otherwise(
    fleet: RunningFederation, joined: CommandResult
) -> None:
    fleet.kubectl("--context", "rome", "-n", "hanse-system", "delete", "secret", "hanse-broker")
    _join(fleet, "rome")
    token = _kubeconfig(fleet, "rome")["users"][0]["user"]["token"]

    expires = credentials_expiry(Identity(token=token))

    assert expires is not None
    assert timedelta(days=6) < expires - datetime.now(UTC) <= timedelta(days=7)


def test_a_token_past_half_its_life_is_renewed(
    fleet: RunningFederation, joined: CommandResult
) -> None:
    again = _join(fleet, "rome", "--token-lifetime", "30d")

    assert "rome: changed Secret hanse-system/hanse-broker\n" in again.out


def test_the_printed_commands_write_the_token_for_its_owner_alone(
    fleet: RunningFederation, joined: CommandResult
) -> None:
    (command,) = [line for line in joined.out.splitlines() if "base64 -d" in line]
    kubectl = fleet.folder / "kubectl"
    kubectl.write_text("#!/bin/sh\nprintf dG9rZW4=\n")
    kubectl.chmod(0o755)

    subprocess.run(
        ["sh", "-c", f"umask 022; PATH={fleet.folder}:$PATH; {command}"],
        cwd=fleet.folder,
        check=True,
    )

    written = fleet.folder / "rome-broker.kubeconfig"
    assert written.read_text() == "token"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_a_services_only_join_prepares_nothing_else_and_revokes_what_was_more(
    fleet: RunningFederation,
) -> None:
    dry = _join(fleet, "pisa", "--features", "services", "--dry-run")
    _join(fleet, "pisa", "--features", "services,networks")
    few = _join(fleet, "pisa", "--features", "services")
    again = _join(fleet, "pisa", "--features", "services")

    assert few.status == 0, few.err
    assert "Namespace avi-system" not in dry.out
    assert "Namespace antrea-plus-system" not in dry.out
    assert "pisa: deleted ClusterRole hanse-agent-networks\n" in few.out
    assert "pisa: deleted ClusterRoleBinding hanse-agent-networks\n" in few.out
    assert "--broker-namespace league --features services\n" in few.out
    assert again.out.startswith("broker: nothing to change\npisa: nothing to change\n")
    roles = fleet.kubectl("--context", "pisa", "get", "clusterroles", "-l", "hanse.dev/feature")
    assert {line.split()[0] for line in roles.out.splitlines()[1:]} == {
        "hanse-agent",
        "hanse-agent-services",
    }
    bound = fleet.kubectl(
        *("--context", "broker", "-n", "league", "get", "rolebindings", "-l"),
        "hanse.dev/member=pisa",
    )
    assert "statefulsets" not in bound.out


def test_an_id_of_another_cluster_is_refused(
    fleet: RunningFederation, joined: CommandResult
) -> None:
    result = _join(fleet, "rome", context="paris")

    assert result.status == 2
    assert result.err.startswith("hanse: cluster id 'rome' is that of another cluster (kube-system")
    assert result.err.endswith("add --replace if that cluster is gone, or is this one built anew\n")


def test_an_id_is_not_taken_by_a_cluster_whose_agent_runs_under_another(
    fleet: RunningFederation, joined: CommandResult
) -> None:
    taken = _join(fleet, "rome", "--replace", context="paris")
    new = _join(fleet, "visby", context="paris")

    for result in (taken, new):
        assert result.status == 2
        assert result.err.startswith("hanse: an agent runs in paris as 'paris'; use that --cluster")
    path = "jsonpath={.metadata.uid}"
    uid = fleet.kubectl("--context", "rome", "get", "namespace", "kube-system", "-o", path)
    record = ("-n", "league", "get", "clustermember", "rome", "-o", "jsonpath={.spec.uid}")
    assert fleet.kubectl("--context", "broker", *record).out == uid.out


def test_members_of_a_local_federation_hold_their_ids_from_the_start(
    fleet: RunningFederation,
) -> None:
    result = fleet.run_hanse(
        "join", "--broker", "broker", "--cluster-id", "rome", "--context", "paris"
    )

    assert result.status == 2
    assert result.err.startswith("hanse: cluster id 'rome' is that of another cluster (kube-system")


def test_a_cluster_has_one_id(fleet: RunningFederation, joined: CommandResult) -> None:
    result = _join(fleet, "paris", context="rome")

    assert result.status == 2
    assert result.err.startswith(
        "hanse: rome has joined as 'rome'; keep that --cluster-id, or undo"
    )


def test_a_dry_run_writes_nothing(fleet: RunningFederation) -> None:
    result = _join(fleet, "paris", "--dry-run")

    assert "# broker: would create ServiceAccount league-accounts/paris\n" in result.out
    assert "# paris: would create Secret hanse-system/hanse-broker\n" in result.out
    found = fleet.kubectl("--context", "paris", "-n", "hanse-system", "get", "secrets")
    assert "hanse-broker" not in found.out


def test_a_server_that_is_no_broker_is_refused_with_the_remedy(fleet: RunningFederation) -> None:
    result = fleet.run_hanse(
        "join", "--broker", "paris", "--cluster-id", "paris", "--context", "paris"
    )

    assert result.status == 2
    assert result.err == (
        "hanse: paris has no namespace hanse-broker; "
        "run `hanse broker init --context paris` first\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("--broker", "broker", "--cluster-id", "Ro.me"),
            "hanse: --cluster-id: cluster id 'Ro.me' is not a DNS label;",
            id="a bad id",
        ),
        pytest.param(
            ("--broker", "nowhere", "--cluster-id", "rome"),
            "hanse: no context 'nowhere' in the kubeconfig; there is: rome, paris, pisa, broker",
            id="a context that is not there",
        ),
        pytest.param(
            ("--broker", "broker", "--cluster-id", "rome", "--token-lifetime", "5s"),
            "hanse: --token-lifetime '5s' is not between 1h and 30d; write it as 7d or 12h",
            id="a bad lifetime",
        ),
        pytest.param(
            ("--broker", "broker", "--cluster-id", "rome", "--features", "gateways"),
            "hanse: --features: there is no feature 'gateways'; choose of services, statefulsets,",
            id="an unknown feature",
        ),
        pytest.param(
            ("--federation", "league", "--cluster-id", "rome", "--features", "services"),
            "hanse: --federation needs the feature membership; add it to --features",
            id="a federation without membership",
        ),
        pytest.param(
            ("--broker", "broker", "--cluster-id", "rome", "--broker-namespace", ""),
            "hanse: --broker-namespace '' is no name of a namespace; use up to 54 lower-case",
            id="no namespace",
        ),
        pytest.param(
            ("--broker", "broker", "--cluster-id", "rome", "--broker-namespace", "ports"),
            "hanse: broker has no namespace ports; "
            "run `hanse broker init --context broker --namespace ports` first",
            id="a namespace that is not there",
        ),
        pytest.param(
            ("--broker", "broker", "--cluster-id", "rome", "--broker-namespace", "default"),
            "hanse: broker has no namespace default-accounts; "
            "run `hanse broker init --context broker --namespace default` first",
            id="a namespace that is no broker's",
        ),
        pytest.param(
            ("--broker", "broker", "--cluster-id", "rome", "--broker-server", "1.2.3.4:6443"),
            "hanse: --broker-server '1.2.3.4:6443' is not the URL of an API server; write https://",
            id="a broker's address that is no URL",
        ),
        pytest.param(
            ("--broker", "broker", "--cluster-id", "rome", "--broker-server", "http://1.2.3.4"),
            "hanse: --broker-server 'http://1.2.3.4' ",
            id="a broker's address without TLS",
        ),
        pytest.param(
            ("--federation", "f", "--cluster-id", "rome", "--broker-server", "https://1.2.3.4"),
            "hanse: --broker-server goes with --broker CONTEXT",
            id="a broker's address without broker",
        ),
        pytest.param(
            ("--federation", "A B", "--cluster-id", "rome", "--supervises"),
            "hanse: --federation 'A B' is no name of a Federation;",
            id="a Federation that cannot be called so",
        ),
        pytest.param(
            ("--broker", "broker", "--cluster-id", "rome", "--from", "pisa"),
            "hanse: pisa is no broker: it has no namespace hanse-broker; name the context of the",
            id="from a cluster that is no broker",
        ),
        pytest.param(
            ("--cluster-id", "rome"),
            "hanse: name what to join: --broker CONTEXT, or --federation NAME, or both",
            id="no broker",
        ),
    ],
)
def test_bad_input_is_one_line(
    fleet: RunningFederation, arguments: tuple[str, ...], message: str
) -> None:
    result = fleet.run_hanse("join", *arguments)

    assert result.status == 2
    assert result.err.startswith(message)
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("leave", "--broker", "broker", "--cluster-id", ""),
            "hanse: --cluster-id: cluster id '' is not a DNS label, so that no cluster has it\n",
            id="leave: no id",
        ),
        pytest.param(
            ("leave", "--broker", "broker", "--broker-namespace", "x", "--cluster-id", "rome"),
            "hanse: broker is no broker: it has no namespace x; name the one that has it with "
            "--broker and --broker-namespace\n",
            id="leave: a namespace that is not there",
        ),
        pytest.param(
            ("leave", "--broker", "broker", "--cluster-id", "rome", "--supervisor", "pisa"),
            "hanse: --supervisor goes with --federation NAME\n",
            id="leave: a supervisor without Federation",
        ),
        pytest.param(
            ("leave", "--broker", "broker", "--federation", "f", "--cluster-id", "rome", "--force"),
            "hanse: --force needs --supervisor CONTEXT: somebody has to forget the cluster\n",
            id="leave: nobody to forget the cluster",
        ),
        pytest.param(
            ("dissolve", "--federation", ""),
            "hanse: --federation '' is no name of a Federation; use lower-case letters, digits, "
            "dashes and dots, such as league\n",
            id="dissolve: no Federation",
        ),
        pytest.param(
            ("broker", "init", "--context", "broker", "--namespace", "A B"),
            "hanse: --namespace 'A B' is no name of a namespace; use up to 54 lower-case letters, "
            "digits and dashes, with a letter or digit at both ends\n",
            id="init: no name of a namespace",
        ),
        pytest.param(
            ("broker", "retire", "--context", "broker", "--successor", "pisa"),
            "hanse: pisa is no broker: it has no namespace hanse-broker; name the context of the "
            "one that has it\n",
            id="retire: a successor that is no broker",
        ),
        pytest.param(
            ("broker", "retire", "--context", "pisa", "--successor", "broker"),
            "hanse: pisa is no broker: it has no namespace hanse-broker; name the context of the "
            "one that has it\n",
            id="retire: a cluster that is no broker",
        ),
    ],
)
def test_bad_input_of_other_commands_of_membership_is_one_line(
    fleet: RunningFederation, arguments: tuple[str, ...], message: str
) -> None:
    result = fleet.run_hanse(*arguments)

    assert (result.status, result.err) == (2, message)
