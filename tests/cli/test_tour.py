"""The tour says what is true: each command is run, and its output is what the page shows."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.programs import (
    COMMAND_TIMEOUT,
    RunningFederation,
    environment,
    eventually,
    hanse,
    running,
)

TOUR = Path(__file__).parents[2] / "docs/guides/tour.md"
WILD = "…"

pytestmark = pytest.mark.skipif(not shutil.which("dig"), reason="no dig here")


def steps(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of the page with the lines that it is said to print."""
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *expected = part.rstrip("\n").split("\n")
            yield command, expected


def shows(output: str, expected: list[str]) -> bool:
    """Whether an output is as the page has it; a wild line stands for any number of lines."""
    pattern = ""
    for line in filter(str.strip, expected):
        words = " ".join(line.split())
        if words == WILD:
            pattern += r"(?:[^\n]*\n)*?"
            continue
        parts = [re.escape(part.strip()) for part in words.split(WILD)]
        pattern += "[^\n]*".join(parts) + r"\n"
    actual = "".join(" ".join(line.split()) + "\n" for line in output.splitlines() if line.strip())
    return re.fullmatch(pattern, actual) is not None


def test_a_wildcard_line_matches_any_lines_and_a_wildcard_word_the_rest_of_its_line() -> None:
    assert shows("a   b  c\nx\ny\nend\n", ["a b …", WILD, "end"])
    assert not shows("a b c\nend\n", ["a b …", "x"])
    assert not shows("a b c\nd\n", ["a b …"])


class Tourist:
    """Somebody who follows the page in a shell beside a running federation."""

    def __init__(self, fleet: RunningFederation, home: Path) -> None:
        status = json.loads(fleet.run_hanse("status", "--json").out)
        host, _, port = status["dns"].partition(":")
        self._shell = f'ask() {{ dig +short @{host} -p {port} "$@"; }}; '
        self._kubeconfig = {"KUBECONFIG": str(fleet.kubeconfig)}
        self._home = home

    def types(self, command: str) -> str:
        if command.startswith("hanse "):
            printed = hanse(*shlex.split(command)[1:], cwd=self._home, env=self._kubeconfig)
            return printed.out + printed.err
        ended = subprocess.run(
            ["bash", "-c", self._shell + command],
            cwd=self._home,
            env=environment(self._home, self._kubeconfig),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return ended.stdout + ended.stderr


def test_every_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    with running(tmp_path) as fleet:
        tourist = Tourist(fleet, tmp_path)
        for command, expected in steps(TOUR.read_text()):

            def check(command: str = command, expected: list[str] = expected) -> str:
                output = tourist.types(command)
                wrong = f"$ {command}\n{output}\nis not\n" + "\n".join(expected)
                return "" if shows(output, expected) else wrong

            # What spans clusters takes a moment; what never comes is a page that lies.
            eventually(check)
