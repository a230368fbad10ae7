"""Every fault: all presentations say the same of it, and what they say mends it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from tests.cli.faces import Faces, eventually, told
from tests.cli.fault_table import (
    AFTER,
    BEFORE,
    FUNCTIONS,
    OBJECTS,
    Fault,
)
from tests.cli.programs import RunningFederation


@pytest.fixture(scope="module")
def faces(fleet: RunningFederation, tmp_path_factory: pytest.TempPathFactory) -> Faces:
    return Faces(fleet, tmp_path_factory.mktemp("person"))


def test_faults_of_objects_are_told_by_all_and_mended_by_what_is_printed(faces: Faces) -> None:
    faces.shell(FUNCTIONS + BEFORE)

    play(faces, OBJECTS)

    faces.shell(FUNCTIONS + AFTER)
    nothing_is_wrong(faces)


def play(faces: Faces, faults: Sequence[Fault]) -> None:
    """Break it, read what is wrong, do as it says."""
    nothing_is_wrong(faces)

    for fault in faults:
        faces.shell(FUNCTIONS + fault.script)
    eventually(lambda: missing(faults, faces.doctor()))
    found = faces.doctor()
    if faults[0].causes:
        assert next(iter(told(found[:1]))).fault == faults[0].finding
        assert found[0]["consequences"]
    for name, read in presentations(faces).items():
        eventually(partial(_compare, name, read, faults, found))

    for one in found:
        for command in one["remedy"]["commands"]:
            faces.shell(command)
    nothing_is_wrong(faces)


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
