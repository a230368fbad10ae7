"""Log lines: the same fields, for people and for machines."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from hanse.logs import Format, configure

log = logging.getLogger("hanse.test")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave logging as pytest has set it up."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers = []
    yield
    root.handlers, root.level = before, level


def _logged(form: Format) -> io.StringIO:
    stream = io.StringIO()
    configure(form, level=logging.INFO, stream=stream)
    return stream


def test_a_json_line_has_its_fields_by_name() -> None:
    stream = _logged("json")

    log.warning("writes paused", extra={"cluster": "lubeck", "count": 3})

    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "hanse.test",
        "message": "writes paused",
        "cluster": "lubeck",
        "count": 3,
    }


def test_a_human_line_quotes_only_what_needs_it() -> None:
    stream = _logged("human")

    log.warning("writes paused", extra={"cluster": "lubeck", "why": "a person said so"})

    line = stream.getvalue()
    assert line.endswith('warning writes paused cluster=lubeck why="a person said so"\n')


@pytest.mark.parametrize("form", ["human", "json"])
def test_an_exception_is_logged_with_its_origin(form: Format) -> None:
    stream = _logged(form)

    try:
        int("low tide")
    except ValueError:
        log.exception("plan failed")

    assert "ValueError: invalid literal" in stream.getvalue()
    assert (stream.getvalue().count("\n") == 1) is (form == "json")


def test_what_is_below_the_level_is_not_logged() -> None:
    stream = _logged("json")

    log.debug("details")

    assert stream.getvalue() == ""
