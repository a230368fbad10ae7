"""Log output for people or as JSON lines: a constant message, and fields beside it."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Format = Literal["human", "json"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(
    form: Format = "human", *, level: int = logging.WARNING, stream: TextIO | None = None
) -> None:
    """Write the records of the root logger from `level` on to one stream, by default stderr.

    All handlers that the root logger had are removed, so that a second call replaces the first.
    asyncio never logs below INFO.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else HumanLines())
    logging.basicConfig(handlers=[handler], force=True)
    set_level(level)


def set_level(level: int) -> None:
    """Set the level of the root logger; that of asyncio is never below INFO."""
    logging.getLogger().setLevel(level)
    logging.getLogger("asyncio").setLevel(max(level, logging.INFO))


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the fields by name."""

    def format(self, record: logging.LogRecord) -> str:
        """A JSON object: time in UTC, level in small letters, logger, message, and extra fields.

        Any traceback is the field `error`. An extra field replaces another of the same name; values
        that JSON does not have become texts.
        """
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra_fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class HumanLines(logging.Formatter):
    """Time, level, message, and the fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Local time, level, message, and `name=value` of extra fields in one line.

        Any traceback follows in the next lines.
        """
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        fields = "".join(
            f" {name}={_quote(value)}" for name, value in _extra_fields(record).items()
        )
        line = f"{at} {record.levelname.lower():<7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that the caller gave with `extra`: the attributes that no plain LogRecord has."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _quote(value: object) -> str:
    """A value as text; as a JSON string if it is empty or has whitespace, `"` or `=`."""
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c in '="' for c in text) else text
