"""Whoever stole a token of a member or a supervisor loses all that it got by it at a rotation."""

from base64 import b64decode
from collections.abc import Iterator

import pytest
import yaml

from hanse.model.tokens import parse_claims
from tests.cli.programs import CommandResult, RunningFederation, running, soon

ACCOUNTS = "hanse-broker-accounts"
SYSTEM = "antrea-plus-system"
JOIN = ("--cluster-id", "rome", "--context", "rome")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    """Two clusters of a local Federation that one of them supervises, as `hanse up` makes it."""
    folder = tmp_path_factory.mktemp("stolen")
    with running(folder, "--clusters", "rome,oslo", "--no-sample") as found:
        yield found


def test_the_first_token_of_a_local_member_ends_with_its_first_rotation(
    fleet: RunningFederation,
) -> None:
    rotated = fleet.run_hanse("join", "--broker", "broker", *JOIN, "--rotate")

    assert rotated.status == 0, rotated.err
    assert "rome uses a new token for broker; 1 earlier one is revoked\n" in rotated.out


def test_a_token_that_was_issued_to_a_thief_ends_with_the_stolen_one(
    fleet: RunningFederation,
) -> None:
    stolen = _broker_token(fleet)
    ask = ("-n", ACCOUNTS, "create", "token", "rome")

    free = _by(fleet, "broker", stolen, *ask)
    elsewhere = _by(fleet, "broker", stolen, *ask, *_bound_to("other"))
    issued = _by(fleet, "broker", stolen, *ask, *_bound_to(_secret_of(stolen)))
    rotated = fleet.run_hanse("join", "--broker", "broker", *JOIN, "--rotate")

    assert "a token is bound to a Secret of its account" in free.err
    assert "a token is bound to a Secret of its account" in elsewhere.err
    assert issued.status == 0, issued.err
    assert rotated.status == 0, rotated.err
    lease = ("-n", "hanse-broker", "get", "lease", "rome")
    for token in (stolen, issued.out.strip()):
        assert "You must be logged in" in _by(fleet, "broker", token, *lease).err
    assert _by(fleet, "broker", _broker_token(fleet), *lease).status == 0


def test_a_supervisors_first_token_and_what_it_was_used_to_get_end_with_a_rotation(
    fleet: RunningFederation,
) -> None:
    stolen = _member_token(fleet)
    ask = ("-n", SYSTEM, "create", "token", "hanse-supervisor-rome")

    issued = _by(fleet, "oslo", stolen, *ask, *_bound_to(_secret_of(stolen)))
    joined = ("join", "--federation", "local", "--cluster-id", "oslo", "--context", "oslo")
    rotated = fleet.run_hanse(*joined, "--supervisor", "rome", "--rotate")
    free = _by(fleet, "oslo", _member_token(fleet), *ask)

    assert issued.status == 0, issued.err
    assert rotated.status == 0, rotated.err
    assert "rome uses a new token for oslo; 1 earlier one is revoked\n" in rotated.out
    for token in (stolen, issued.out.strip()):
        assert "You must be logged in" in _by(fleet, "oslo", token, "get", "clusterclaims").err
    assert "a token is bound to a Secret of its account" in free.err


def test_an_agent_that_starts_after_a_rotation_uses_the_token_in_its_cluster(
    fleet: RunningFederation,
) -> None:
    assert fleet.run_hanse("local", "stop", "agent", "rome").status == 0

    started = fleet.run_hanse("local", "start", "agent", "rome")

    assert started.status == 0, started.err
    get = ("--context", "broker", "-n", "hanse-broker", "get", "clustermember", "rome", "-o")
    phase = ("jsonpath={.status.phase}",)
    soon(lambda: fleet.kubectl(*get, *phase).out == "Ready")
    soon(lambda: fleet.run_hanse("doctor").status == 0)


def _secret_of(token: str) -> str:
    """The Secret that a token is bound to."""
    claims = parse_claims(token)
    assert claims is not None
    assert claims.bound is not None
    return claims.bound.name


def _bound_to(secret: str) -> tuple[str, ...]:
    """The options that bind a token to a Secret."""
    return ("--bound-object-kind", "Secret", "--bound-object-name", secret)


def _broker_token(fleet: RunningFederation) -> str:
    """The token in rome for the broker."""
    get = ("--context", "rome", "-n", "hanse-system", "get", "secret", "hanse-broker", "-o")
    found = b64decode(fleet.kubectl(*get, "jsonpath={.data.kubeconfig}").out)
    return str(yaml.safe_load(found)["users"][0]["user"]["token"])


def _member_token(fleet: RunningFederation) -> str:
    """The token in rome for oslo, which it supervises."""
    get = ("--context", "rome", "-n", SYSTEM, "get", "secret", "member-oslo", "-o")
    return b64decode(fleet.kubectl(*get, "jsonpath={.data.token}").out).decode()


def _by(fleet: RunningFederation, cluster: str, token: str, *arguments: str) -> CommandResult:
    """What a cluster answers to whoever has a token."""
    contexts = yaml.safe_load(fleet.kubeconfig.read_text())
    contexts["users"] = [{"name": u["name"], "user": {"token": token}} for u in contexts["users"]]
    file = fleet.folder / "by-token.kubeconfig"
    file.write_text(yaml.safe_dump(contexts))
    return fleet.kubectl("--kubeconfig", str(file), "--context", cluster, *arguments)
