"""Every fault: all presentations say the same of it, and what they say mends it."""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from tests.cli.cluster_faults import CLUSTERS, LONG_LEASES, SHORT_LEASES, TIDY
from tests.cli.faces import Faces, told
from tests.cli.fault_table import AFTER, BEFORE, OBJECTS, SPANNING, Fault
from tests.cli.fault_table import FUNCTIONS as OBJECT_FUNCTIONS
from tests.cli.feature_faults import FEATURE_FUNCTIONS, FEATURES
from tests.cli.programs import RunningFederation, eventually
from tests.cli.refusal_faults import REFUSALS

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


FUNCTIONS = OBJECT_FUNCTIONS + FEATURE_FUNCTIONS
ALONE = {**REFUSALS, **CLUSTERS}


@pytest.fixture(scope="module")
def faces(fleet: RunningFederation, tmp_path_factory: pytest.TempPathFactory) -> Faces:
    return Faces(fleet, tmp_path_factory.mktemp("person"))


def test_faults_of_objects_are_told_by_all_and_mended_by_what_is_printed(faces: Faces) -> None:
    faces.shell(FUNCTIONS + BEFORE)

    if os.environ.get("HANSE_FAULTS"):
        play(faces, FEATURES)
        play(faces, SPANNING)
        play(faces, OBJECTS)
    else:
        play(faces, OBJECTS[:7])

    faces.shell(FUNCTIONS + AFTER)
    nothing_is_wrong(faces)


@pytest.mark.skipif(not os.environ.get("HANSE_FAULTS"), reason="two minutes: make faults")
@pytest.mark.parametrize("faults", ALONE.values(), ids=ALONE)
def test_a_fault_of_a_cluster_is_told_first_by_all_and_mended_by_what_is_printed(
    faces: Faces, faults: Sequence[Fault]
) -> None:
    faces.shell(FUNCTIONS + SHORT_LEASES)

    play(faces, faults)

    faces.shell(FUNCTIONS + LONG_LEASES + TIDY)


def test_a_kubeconfig_that_cannot_be_read_is_told_and_mended_by_another(faces: Faces) -> None:
    faces.shell("echo '{broken' >broken")

    said = faces.shell("hanse --kubeconfig broken doctor --json || [ $? = 1 ]")
    (found,) = json.loads(said)["findings"]
    assert found["code"] == "KubeconfigInvalid"
    assert "name a readable file with --kubeconfig" in found["remedy"]["advice"]

    faces.shell('hanse --kubeconfig "$KUBECONFIG" doctor')


def play(faces: Faces, faults: Sequence[Fault]) -> None:
    """Break it, read what is wrong, do as it says."""
    nothing_is_wrong(faces)

    for fault in faults:
        faces.shell(FUNCTIONS + fault.script)
    found: list[dict[str, Any]] = []

    def look() -> str:
        found[:] = faces.doctor()
        follows = {fault.finding: fault.follows for fault in faults}
        return missing(faults, found) or not_first(faults, found) or without(follows, found)

    eventually(look)
    remembered = {fault.finding: fault.remembered for fault in faults}
    eventually(lambda: without(remembered, faces.dashboard()))
    for name, read in presentations(faces).items():

        def agrees(name: str = name, read: Callable[[], set[Any]] = read) -> str:
            """Compare, and ask the doctor again, too: more may be lost than a moment ago."""
            differs = _compare(name, read, faults, found)
            return differs and (look() or differs)

        eventually(agrees)

    for one in found:
        for command in one["remedy"]["commands"]:
            faces.shell(command)
    for fault in faults:
        if fault.asked:
            (one,) = (f for f in found if next(iter(told([f]))).fault == fault.finding)
            assert one["remedy"]["ask"], one
            assert not one["remedy"]["commands"], one
            faces.shell(FUNCTIONS + fault.asked)
    nothing_is_wrong(faces)
    for fault in faults:
        faces.shell(FUNCTIONS + fault.restore)


def presentations(faces: Faces) -> dict[str, Callable[[], set[Any]]]:
    """What is wrong, as each presentation but the doctor says it."""
    return {
        "status": lambda: told(faces.status()["findings"]),
        "dashboard": lambda: told(faces.dashboard()),
        "metrics": faces.metrics,
        "events": lambda: {reason for reason, _ in faces.events()},
    }


def missing(faults: Sequence[Fault], findings: Sequence[dict[str, Any]]) -> str:
    """Faults that are not among the findings."""
    known = {one.fault for one in told(findings)}
    absent = [fault.finding for fault in faults if fault.finding not in known]
    return f"{absent} not in {sorted(known)}" if absent else ""


def not_first(faults: Sequence[Fault], findings: Sequence[dict[str, Any]]) -> str:
    """Causes that are not told with what follows from them, before what has no consequences."""
    for fault in faults:
        if fault.causes:
            names = [next(iter(told([one]))).fault for one in findings]
            before = findings[: names.index(fault.finding) + 1]
            if not all(one["consequences"] for one in before):
                return f"{fault.finding} is not told first, with its consequences: {names}"
    return ""


def without(follows: Mapping[str, Sequence[str]], findings: Sequence[dict[str, Any]]) -> str:
    """What is not told under the causes that it follows from."""
    under: dict[str, list[str]] = {}
    for one in findings:
        fault = next(iter(told([one]))).fault
        under.setdefault(fault, []).extend(each["summary"] for each in one["consequences"])
    for fault, texts in follows.items():
        for text in texts:
            if not any(text in summary for summary in under.get(fault, ())):
                return f"{text!r} is not told under {fault}: {under}"
    return ""


def _compare(
    name: str,
    read: Callable[[], set[Any]],
    faults: Sequence[Fault],
    found: Sequence[dict[str, Any]],
) -> str:
    """What a presentation does not say as the doctor does."""
    said = read()
    severities = {one.fault: one.severity for one in told(found)}
    expected = {
        (fault.seen_as.get(name, fault.finding), severities[fault.finding])
        for fault in faults
        if name not in fault.unseen_by
    }
    absent = (
        {finding.split()[0] for finding, _ in expected} - said
        if name == "events"
        else expected - {(one.fault, one.severity) for one in said}
    )
    return f"{name} does not say {sorted(absent)} but {sorted(said)}" if absent else ""


def nothing_is_wrong(faces: Faces) -> None:
    """Wait until the page, the metrics and the doctor find nothing."""
    for read in (faces.dashboard, faces.metrics, faces.doctor):
        eventually(partial(_wrong, read))


def _wrong(read: Callable[[], Any]) -> str:
    found = read()
    return f"still wrong: {found}" if found else ""
