"""`hanse policies resolve`: what is decided where, and what is said when there is nothing to."""

from pathlib import Path

import pytest

from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.policies.ledgers import Decision, _deciding_cluster
from hanse.features.policies.listing import MemberStatus, OverruledVersion, PolicyView
from hanse.model.plan import Key
from tests.cli.programs import hanse

KEY = Key("acnp", "deny")
LOST = (OverruledVersion("bergen", "Present", {}), OverruledVersion("rome", "Deleted", {}))


def policy(overruled: tuple[OverruledVersion, ...] = (), **phases: str) -> PolicyView:
    members = {cluster: MemberStatus(phase) for cluster, phase in phases.items()}
    return PolicyView("acnp", "", "deny", "Present", "lubeck", members, overruled)


@pytest.mark.parametrize(
    ("view", "answer", "where", "decided"),
    [
        pytest.param(
            policy(lubeck="Applied", bergen="Quarantined"), "keep", "", "bergen", id="one waits"
        ),
        pytest.param(
            policy(rome="Quarantined", bergen="Quarantined"), "yield", "rome", "rome", id="named"
        ),
        pytest.param(
            policy(LOST, lubeck="Applied", bergen="Applied"), "bergen", "", "bergen", id="taken"
        ),
        pytest.param(policy(LOST, lubeck="Applied"), "rome", "", "lubeck", id="a deletion"),
        pytest.param(policy(LOST, lubeck="Applied"), "keep", "lubeck", "lubeck", id="kept"),
    ],
)
def test_the_deciding_cluster_is_the_one_that_waits_or_has_it_applied(
    view: PolicyView, answer: str, where: str, decided: str
) -> None:
    assert _deciding_cluster(view, Decision(KEY, where, answer, 1)) == decided


@pytest.mark.parametrize(
    ("view", "answer", "where", "message"),
    [
        pytest.param(
            policy(rome="Quarantined", bergen="Quarantined"),
            "keep",
            "",
            "acnp/deny waits in bergen, rome; name one with --in",
            id="two wait",
        ),
        pytest.param(
            policy(lubeck="Applied"), "yield", "", "nothing can give way", id="none waits"
        ),
        pytest.param(policy(lubeck="Applied"), "keep", "", "nothing to decide", id="no conflict"),
        pytest.param(
            policy(LOST, lubeck="Applied"), "oslo", "", "changes are kept of bergen", id="not kept"
        ),
        pytest.param(
            policy(LOST, lubeck="Applied"), "keep", "rome", "not applied in rome", id="elsewhere"
        ),
    ],
)
def test_a_decision_about_nothing_is_refused_in_one_sentence(
    view: PolicyView, answer: str, where: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        _deciding_cluster(view, Decision(KEY, where, answer, 1))


def test_a_policy_that_no_cluster_has_yet_is_shown_as_such() -> None:
    with pytest.raises(CommandFailed, match="applied nowhere yet"):
        _deciding_cluster(policy(LOST, lubeck="Pending"), Decision(KEY, "", "keep", 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("deny", "--keep"), "'deny' is no policy; say acnp/NAME or anp/NAMESPACE/NAME"),
        (("acnp/deny",), "say what counts: one of --keep, --yield or --take CLUSTER"),
        (("acnp/deny", "--keep", "--take", "rome"), "--keep and --take rome contradict each other"),
        (("acnp/deny", "--keep", "--yield"), "--keep and --yield contradict each other; say one"),
        (
            ("acnp/deny", "--take", "rome", "--yield", "--keep"),
            "--keep, --yield and --take rome contradict each other",
        ),
    ],
)
def test_bad_input_is_answered_with_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = hanse("policies", "resolve", *arguments, cwd=tmp_path)

    assert result.status == 2
    assert message in result.err
    assert result.err.count("\n") == 1
