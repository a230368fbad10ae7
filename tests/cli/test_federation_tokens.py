"""Members of a federation get new tokens."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cli.league import ONE, federation_of, join, leave, reached, running_league
from tests.cli.programs import CommandResult, RunningFederation, soon


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Three clusters with agents, of which two supervise a federation."""
    with running_league(tmp_path_factory.mktemp("league")) as found:
        yield found


def test_supervisors_get_new_tokens_without_a_gap_and_the_earlier_ones_end(
    fleet: RunningFederation,
) -> None:
    assert join(fleet, "oslo", *ONE).status == 0
    for supervisor in ("rome", "paris"):
        soon(reached(fleet, supervisor, "rome", "paris", "oslo"))
    soon(lambda: bool(_leader(fleet, "rome")) and _leader(fleet, "rome") == _leader(fleet, "paris"))
    before = {s: (_token(fleet, s), _since(fleet, s)) for s in ("rome", "paris")}

    rotated = join(fleet, "oslo", *ONE, "--rotate")

    assert rotated.status == 0, rotated.err
    for supervisor, (old, since) in before.items():
        said = f"{supervisor} uses a new token for oslo; 1 earlier one is revoked\n"
        assert said in rotated.out
        assert "You must be logged in" in _claims_by(fleet, old).err
        assert _claims_by(fleet, _token(fleet, supervisor)).status == 0
        assert _since(fleet, supervisor) == since, "it was unreachable, or led by another"
    assert leave(fleet, "oslo", *ONE).status == 0
    get = ("--context", "oslo", "-n", "antrea-plus-system", "get", "secrets", "-o", "name")
    soon(lambda: not fleet.kubectl(*get).out)


def _token(fleet: RunningFederation, supervisor: str) -> str:
    """The token by which a supervisor reaches oslo."""
    get = ("--context", supervisor, "-n", "antrea-plus-system", "get", "secret", "member-oslo")
    return b64decode(fleet.kubectl(*get, "-o", "jsonpath={.data.token}").out).decode()


def _leader(fleet: RunningFederation, supervisor: str) -> str:
    """The leader of oslo, as a supervisor says; empty until it knows one."""
    return str(_oslo(fleet, supervisor).get("leader", ""))


def _since(fleet: RunningFederation, supervisor: str) -> str:
    """Since when oslo is reached and led as a supervisor says."""
    return str(_oslo(fleet, supervisor)["since"])


def _oslo(fleet: RunningFederation, supervisor: str) -> Any:
    members = federation_of(fleet, supervisor)["status"]["members"]
    return next(m for m in members if m["clusterID"] == "oslo")


def _claims_by(fleet: RunningFederation, token: str) -> CommandResult:
    """What oslo answers to whoever has a token."""
    contexts = yaml.safe_load(fleet.kubeconfig.read_text())
    contexts["users"] = [{"name": u["name"], "user": {"token": token}} for u in contexts["users"]]
    file = fleet.folder / "by-token.kubeconfig"
    file.write_text(yaml.safe_dump(contexts))
    return fleet.kubectl("--kubeconfig", str(file), "--context", "oslo", "get", "clusterclaims")
