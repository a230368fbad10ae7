"""The program itself: help, errors in one line, exit statuses, and how fast it starts."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from hanse.cli import root
from hanse.cli.root import COMMANDS, run
from hanse.cli.settings import GlobalOptions, global_options
from tests.cli.programs import hanse

HEAVY = ("aiohttp", "uvloop", "rich", "cryptography", "prometheus_client", "yaml")
NOT_FOR_AGENTS = (
    "cryptography",
    "dns",
    "rich",
    "hanse.web.dashboard",
    "hanse.dns.server",
    "hanse.local",
)


def _commands() -> list[click.Command]:
    context = click.Context(root.hanse)
    found = [root.hanse.get_command(context, name) for name in COMMANDS]
    leaves = [
        inner for one in found if isinstance(one, click.Group) for inner in one.commands.values()
    ]
    return [one for one in (*found, *leaves) if one is not None]


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0

    output = capsys.readouterr().out
    assert all(f"\n  {name} " in output for name in COMMANDS)


@pytest.mark.parametrize("words", [[], ["local"]], ids=["hanse", "hanse local"])
def test_no_command_at_all_shows_the_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 0

    assert capsys.readouterr().out.startswith(" ".join(["Usage: hanse", *words]))


def test_each_command_says_of_itself_what_the_list_says_of_it() -> None:
    context = click.Context(root.hanse)

    for name, line in COMMANDS.items():
        command = root.hanse.get_command(context, name)

        assert command is not None
        assert command.help is not None
        assert command.help.splitlines()[0] == line


def test_each_command_shows_examples() -> None:
    without = [one.name for one in _commands() if "Examples:" not in (one.help or "")]

    assert without == []


def test_each_option_is_explained() -> None:
    silent = [
        f"{command.name} {param.name}"
        for command in _commands()
        for param in command.params
        if isinstance(param, click.Option) and not param.help and not param.hidden
    ]

    assert silent == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(
            ["crdz"],
            "hanse: there is no command 'crdz', did you mean 'crds'?; see `hanse --help`",
            id="a command nearly right",
        ),
        pytest.param(
            ["sail"], "hanse: there is no command 'sail'; see `hanse --help`", id="no command"
        ),
        pytest.param(
            ["up", "--engine", "steam"],
            "hanse up: invalid value for '--engine': 'steam' is not one of 'embedded', "
            "'kubernetes'; see `hanse up --help`",
            id="no choice",
        ),
        pytest.param(
            ["up", "--clusters", "a,b,a"],
            "hanse: --clusters: cluster name 'a' is given twice; names must differ",
            id="the same cluster twice",
        ),
        pytest.param(
            ["up", "--clusters", "Lübeck"],
            "hanse: --clusters: cluster name 'Lübeck' is not a DNS label; use up to 63 lower-case "
            "letters, digits and dashes, beginning with a letter",
            id="not a name",
        ),
        pytest.param(
            ["up", "--clusters", "broker"],
            "hanse: --clusters: cluster name 'broker' is the broker's own; choose another",
            id="the broker's name",
        ),
        pytest.param(
            ["help", "sail"], "hanse: there is no command 'sail'; see `hanse --help`", id="help"
        ),
        pytest.param(
            ["agent"],
            "hanse agent: missing option '--cluster-id' (env var: 'HANSE_CLUSTER_ID'); "
            "see `hanse agent --help`",
            id="an option missing",
        ),
        pytest.param(
            ["join", "--federation"],
            "hanse: option '--federation' requires an argument; see `hanse --help`",
            id="an option without its word",
        ),
        pytest.param(
            ["agent", "--cluster-id", "a", "--listen", "here"],
            "hanse: --listen 'here' is not ADDRESS:PORT; write it as 0.0.0.0:8080",
            id="no address",
        ),
        pytest.param(
            ["local", "slow", "lubeck", "3h"],
            "hanse local slow: '3h' is not a duration up to 60s; write it as 200ms or 1.5s; "
            "see `hanse local slow --help`",
            id="no duration",
        ),
        pytest.param(
            ["tenant", "create", "acme", "--admin", "user:anna", "--namespace", "kube-system"],
            "hanse: --namespace kube-system gives acme-kube-system, where the DNS of a tenant "
            "runs, in which administrators have no rights; choose another name",
            id="the namespace of a tenant's DNS",
        ),
        pytest.param(
            ["tenant", "create", "acme-kube", "--namespace", "system"],
            "hanse: --namespace system gives acme-kube-system, where the DNS of a tenant runs, in "
            "which administrators have no rights; choose another name",
            id="the namespace of another tenant's DNS",
        ),
        pytest.param(
            ["networks", "provider", "--range", "10.0.0.0/29"],
            "hanse: --range 10.0.0.0/29 is too small for a network; give at least a /28",
            id="a pool without room",
        ),
        pytest.param(
            ["status", "--kubeconfig", "/no/such/file"],
            "hanse: kubeconfig: cannot read /no/such/file: No such file or directory; "
            "name a readable file with --kubeconfig",
            id="no kubeconfig",
        ),
    ],
)
def test_bad_input_gets_one_line_and_status_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2

    output = capsys.readouterr()
    assert output.err == f"{line}\n"
    assert output.out == ""


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("version")
    def command() -> None:
        raise ValueError("the tide\nis low")

    monkeypatch.setattr("hanse.cli.version.command", command)


@pytest.mark.usefixtures("failing")
def test_a_fault_of_ours_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 70

    assert capsys.readouterr().err == (
        "hanse: unexpected ValueError: the tide is low; run it with --debug to see where\n"
    )


@pytest.mark.usefixtures("failing")
def test_the_traceback_is_shown_to_who_asks_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--debug"]) == 70

    assert "Traceback" in capsys.readouterr().err


def test_an_interrupted_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("version")
    def command() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hanse.cli.version.command", command)

    assert run(["version"]) == 130


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--context", "lubeck", "-v", "version"], id="before the command"),
        pytest.param(["version", "--context", "lubeck", "-v"], id="behind it"),
    ],
)
def test_global_options_may_be_given_anywhere(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[GlobalOptions] = []

    @click.command("version")
    @click.pass_context
    def command(context: click.Context) -> None:
        seen.append(global_options(context))

    monkeypatch.setattr("hanse.cli.version.command", command)

    assert run(arguments) == 0
    assert seen == [GlobalOptions(context="lubeck", verbose=True)]


def test_an_agent_takes_no_memory_for_what_it_is_not_asked_to_do() -> None:
    script = (
        "import sys; from hanse import app; from hanse.cli.agent import command, process; "
        "app.features(), app.hooks(), app.configured_name_server(app.Options()); "
        f"sys.exit(', '.join(m for m in {NOT_FOR_AGENTS!r} if m in sys.modules) or 0)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["version"], ["up", "--help"], ["local", "--help"]], ids=" ".join
)
def test_what_needs_no_cluster_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys; from hanse.cli.root import run; "
        f"run({arguments!r}); "
        f"sys.exit(', '.join(m for m in {HEAVY!r} if m in sys.modules) or 0)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_program_ends_with_the_status_of_its_command(tmp_path: Path) -> None:
    assert hanse("version", cwd=tmp_path).status == 0
    assert hanse("sail", cwd=tmp_path).status == 2


def test_no_traceback_reaches_a_user(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("clusters: [not, {a: cluster}]")

    result = hanse("status", "--kubeconfig", "config", cwd=tmp_path)

    assert result.status == 2
    assert result.err.count("\n") == 1
    assert result.err.startswith("hanse: config: ")


def test_a_closed_pipe_prints_no_error(tmp_path: Path) -> None:
    piped = subprocess.run(
        f"{sys.executable} -c 'from hanse.cli import main; main()' crds | head -n 1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert piped.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_given_a_completion_script(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", shell]) == 0

    assert f"_HANSE_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_completion_knows_our_commands(tmp_path: Path) -> None:
    asked = {"_HANSE_COMPLETE": "bash_complete", "COMP_WORDS": "hanse do", "COMP_CWORD": "1"}

    result = hanse(cwd=tmp_path, env=asked)

    assert result.out.split() == ["plain,doctor"]


def test_the_version_can_be_read_by_machines(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from hanse import __version__

    assert run(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"hanse": __version__}


def test_help_as_a_command_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "local", "cut"]) == 0

    assert capsys.readouterr().out.startswith("Usage: hanse local cut")
