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
    """Write log records from a level on to one stream; a second call replaces the first."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else HumanLines())
    logging.basicConfig(handlers=[handler], force=True)
    set_level(level)


def set_level(level: int) -> None:
    """Change the level; asyncio never logs below INFO."""
    logging.getLogger().setLevel(level)
    logging.getLogger("asyncio").setLevel(max(level, logging.INFO))


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the fields by name."""

    def format(self, record: logging.LogRecord) -> str:
        """A JSON object: time in UTC, level, logger, message, extra fields, and any traceback."""
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
        """Time, level, message, `name=value` of extra fields in one line; then any traceback."""
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        fields = "".join(
            f" {name}={_quote(value)}" for name, value in _extra_fields(record).items()
        )
        line = f"{at} {record.levelname.lower():<7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _quote(value: object) -> str:
    """A value as it is; in JSON quotes if it is empty or has spaces, quotes or `=`."""
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c in '="' for c in text) else text
