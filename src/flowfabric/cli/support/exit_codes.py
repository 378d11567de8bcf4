"""Exit codes of `ff`, and the message that goes with a failure."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from flowfabric.model.errors import FlowFabricError, Infrastructure, InvalidInput, NotFound, Unauthorized


class ExitCode(IntEnum):
    """The exit codes of all commands; `docs/guides/cli.md` explains them."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    TIMEOUT = 5
    INTERRUPTED = 130


class CommandError(Exception):
    """A command fails with this message and exit code, without a traceback."""

    def __init__(self, text: str, code: ExitCode = ExitCode.REFUSED) -> None:
        super().__init__(text)
        self.code = code


_BY_CLASS: Final = (
    (NotFound, ExitCode.NOT_FOUND),
    (InvalidInput, ExitCode.USAGE),
    (Infrastructure, ExitCode.UNREACHABLE),
)


def exit_code_of(error: FlowFabricError) -> ExitCode:
    """Return the exit code for an error of the engine."""
    return next((code for class_, code in _BY_CLASS if isinstance(error, class_)), ExitCode.REFUSED)


def message_of(error: FlowFabricError) -> str:
    """Return one line that says what happened and, where it helps, what to do."""
    if error.code == "execution_not_found":
        return f"{error}; `ff ps` lists executions"
    if error.code == "kind_not_found":
        return f"{error}; `ff kinds` lists kinds"
    if isinstance(error, Unauthorized):
        return f"{error}; set FF_API_TOKEN, or write http://:token@host:port"
    return str(error).replace("\n", " ")
