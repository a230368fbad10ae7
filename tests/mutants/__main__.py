"""`make mutants`: plant each fault in a copy of `src`, and see whether laws and tests notice it.

python -m tests.mutants [--only laws|tests] [--jobs N] [--seeds N] [NAME ...]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from tests.mutants.catalogue import ROOT, Mutant, load_mutants, plant

LAWS_GOAL, TESTS_GOAL = 80, 98
TIMEOUT = 3600.0
"""Seconds after which a run counts as a failure: a mutant may never end."""


class Verdict(Struct, frozen=True):
    """Whether the laws, and whether laws or nearest tests, noticed a mutant; None: not tried."""

    mutant: Mutant
    by_laws: bool | None
    by_tests: bool | None
    seconds: float

    @property
    def noticed(self) -> bool:
        return bool(self.by_laws or self.by_tests)


def main() -> int:
    """The exit status: 1 if fewer mutants than the goals are noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these mutants")
    parser.add_argument("--only", choices=("laws", "tests"), help="try one of the two")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--seeds", type=int, default=40, help="schedules of the simulator")
    parser.add_argument("--no-baseline", action="store_true", help="trust that all is green")
    options = parser.parse_args()
    chosen = [m for m in load_mutants() if not options.names or m.name in options.names]

    if not options.no_baseline:
        _require_green(chosen, options.only, options.seeds)

    def judge(mutant: Mutant) -> Verdict:
        return _judge(mutant, options.only, options.seeds)

    verdicts = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(judge, chosen):
            verdicts.append(verdict)
            _print(_describe(verdict))
    return _report(verdicts, options.only)


def _require_green(chosen: Sequence[Mutant], only: str | None, seeds: int) -> None:
    """Exit if laws or tests fail without any mutant: then they would notice everything."""
    commands: dict[tuple[str, ...], None] = {}
    for mutant in chosen:
        if only != "tests":
            commands.update(dict.fromkeys(laws(mutant, seeds)))
        if only != "laws":
            commands.update(dict.fromkeys(nearest_tests(mutant)))
    for command in commands:
        if _fails(ROOT / "src", [command]):
            sys.exit(f"this fails without a mutant: python {' '.join(command)}")


def _judge(mutant: Mutant, only: str | None, seeds: int) -> Verdict:
    """Plant a mutant, and run the laws, and the nearest tests."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = plant(mutant, Path(folder))
        by_laws = None if only == "tests" else _fails(source, laws(mutant, seeds))
        by_tests = None if only == "laws" else _fails(source, nearest_tests(mutant))
    return Verdict(mutant, by_laws, by_tests, time.monotonic() - began)


def laws(mutant: Mutant, seeds: int) -> Iterator[tuple[str, ...]]:
    """The commands that check laws alone: the simulator, and the searches of single features.

    Of a feature only its own schedules and search run it; the runtime's is the quickest of all.
    """
    _, package, *rest = mutant.file.split("/")
    searched = f"features/{rest[0]}" if package == "features" else "**"
    parts = _PARTS.get(rest[0], "all") if package == "features" else "all"
    drawn = ("--seeds", f"0:{seeds}", "--every-step", "--features", parts)
    yield ("-m", "tests.support.simulator", *drawn, "--no-shrink")
    files = sorted(str(f.relative_to(ROOT)) for f in ROOT.glob(f"tests/{searched}/test_laws.py"))
    if files:
        yield (*_PYTEST, *sorted(files, key=lambda file: "runtime" not in file))


def nearest_tests(mutant: Mutant) -> Iterator[tuple[str, ...]]:
    """The commands that run the tests of the mutated module, then those of its package.

    The searches for broken laws are not among them.
    """
    _, package, *rest = mutant.file.split("/")
    folders = [f"tests/{package}/{rest[0]}" if package == "features" else f"tests/{package}"]
    if package == "kube":
        folders.append("tests/runtime")  # which lives by it
    module = f"{folders[0]}/test_{rest[-1]}"
    if (ROOT / module).exists():
        yield (*_PYTEST, module)
    yield (*_PYTEST, *(f"--ignore-glob=*/{name}" for name in _SEARCHES), *folders)


_PARTS = {
    "services": "services,members",
    "statefulsets": "services,members,statefulsets",
    "policies": "federated,policies",
    "federated": "federated",
    "gslb": "gslb",
    "networks": "networks",
}
"""The parts of the simulator that act on a feature."""

_SEARCHES = ("test_laws*.py", "test_schedules.py")
_PYTEST = ("-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider")


def _fails(source: Path, commands: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> bool:
    """Whether one of the commands fails with the mutated source, or does not end."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    for command in commands:
        try:
            ended = subprocess.run(
                [sys.executable, *command],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        if ended.returncode:
            return True
    return False


def _describe(verdict: Verdict) -> str:
    """One line about a mutant."""
    words = {True: "noticed", False: "MISSED", None: "-"}
    laws_, tests = words[verdict.by_laws], words[verdict.by_tests]
    name, seconds = verdict.mutant.name, f"{verdict.seconds:.0f} s"
    return f"{name:<40} laws: {laws_:<8} tests: {tests:<8} {seconds:>6}"


def _report(verdicts: Sequence[Verdict], only: str | None) -> int:
    """Print the shares and the survivors; 1 if a goal is missed."""
    missed = [v for v in verdicts if not v.noticed]
    for verdict in missed:
        _print(f"survived: {verdict.mutant.name}: {verdict.mutant.survives or 'no reason given'}")
    by_laws = 100 * sum(bool(v.by_laws) for v in verdicts) / len(verdicts)
    noticed = 100 * sum(v.noticed for v in verdicts) / len(verdicts)
    _print(f"{len(verdicts)} mutants: {by_laws:.0f} % by laws alone, {noticed:.0f} % by all tests")
    reached = noticed >= TESTS_GOAL or all(v.mutant.survives for v in missed)
    return int(not (reached if only != "laws" else by_laws >= LAWS_GOAL))


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - its output


if __name__ == "__main__":
    sys.exit(main())
