"""What the server writes to its log: one line for each event, as text or as JSON, with the request it belongs to."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any, Final

from flowfabric.model.errors import InvalidInput

REQUEST: Final[ContextVar[str]] = ContextVar("flowfabric_request", default="")
EXECUTION: Final[ContextVar[str]] = ContextVar("flowfabric_execution", default="")
TRACE: Final[ContextVar[str]] = ContextVar("flowfabric_trace", default="")
FORMATS: Final = ("text", "json")
AUDIT: Final = "flowfabric.audit"
_STANDARD: Final = frozenset(
    (*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime", "taskName")
)


def facts(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a record carries besides its text: request, execution, and all that was given as `extra`."""
    found: dict[str, Any] = {
        "request_id": REQUEST.get(),
        "execution_id": EXECUTION.get(),
        "trace_id": TRACE.get(),
    }
    found |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
    return {name: value for name, value in found.items() if value is not None and value != ""}


class _Lines(logging.Formatter):
    """Base: a text stays on one line, whatever it holds, so that nobody writes lines of his own."""

    @staticmethod
    def when(record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class JsonLines(_Lines):
    """One JSON object on each line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        line = {
            "at": self.when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **facts(record),
        }
        trace = self.trace(record)
        if trace:
            line["exception"] = trace
        return json.dumps(line, default=str)


class TextLines(_Lines):
    """Time, level, logger, text, and the rest as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; a traceback follows on lines of its own."""
        rest = "".join(f" {name}={_quoted(value)}" for name, value in facts(record).items())
        text = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        line = f"{self.when(record)} {record.levelname:<7} {record.name}: {text}{rest}"
        trace = self.trace(record)
        return f"{line}\n{trace}" if trace else line


def _quoted(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


def configure(form: str = "text", level: str = "INFO", stream: IO[str] | None = None) -> None:
    """Send the log of this process to a stream (standard error), the audit log whatever the level is."""
    if form not in FORMATS:
        raise InvalidInput(f"one of {', '.join(FORMATS)}", field="FF_LOG_FORMAT")
    if level.upper() not in logging.getLevelNamesMapping():
        raise InvalidInput("one of debug, info, warning, error", field="FF_LOG_LEVEL")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    audit = logging.getLogger(AUDIT)
    audit.handlers[:] = [handler]
    audit.setLevel(logging.INFO)
    audit.propagate = False
