"""What commands print of findings can be pasted."""

import pytest

from hanse.cli import findings

COMMANDS = {
    "hanse join --broker broker --cluster-id rome": "./bin/hanse join --broker broker --cluster-id "
    "rome",
    "hanse crds | kubectl --context rome apply -f -": "./bin/hanse crds | kubectl --context rome "
    "apply -f -",
    "kubectl -n hanse get pods": "kubectl -n hanse get pods",
    "kubectl --context rome -n hanse-system get pods": "kubectl --context rome -n hanse-system get "
    "pods",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_remedy_calls_this_program_as_the_shell_finds_it(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "program_name", lambda: "./bin/hanse")

    assert findings.as_called(command) == COMMANDS[command]
