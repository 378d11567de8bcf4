"""How `ff` ends: one number for each thing that a script has to tell apart, and one line that says what to do."""

from __future__ import annotations

from enum import IntEnum

from flowfabric.model.errors import FlowFabricError, Infrastructure, InvalidInput, NotFound, Unauthorized


class Exit(IntEnum):
    """The exit codes of commands; `docs/guides/cli.md` explains them."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    TIMEOUT = 5
    INTERRUPTED = 130


class Refused(Exception):
    """A command cannot do what was asked; the text is all that is shown."""

    def __init__(self, text: str, code: Exit = Exit.REFUSED) -> None:
        super().__init__(text)
        self.code = code


_FAMILIES = (
    (NotFound, Exit.NOT_FOUND),
    (InvalidInput, Exit.USAGE),
    (Infrastructure, Exit.UNREACHABLE),
)


def code_of(error: FlowFabricError) -> Exit:
    """Choose the exit code of a refusal."""
    return next((code for family, code in _FAMILIES if isinstance(error, family)), Exit.REFUSED)


def sentence(error: FlowFabricError) -> str:
    """Say what happened and what to do, in one line."""
    if error.code == "execution_not_found":
        return f"{error}; `ff ps` shows what there is"
    if error.code == "kind_not_found":
        return f"{error}; `ff kinds` shows what there is"
    if isinstance(error, Unauthorized):
        return f"{error}; set FF_API_TOKEN, or write http://:token@host:port"
    return str(error).replace("\n", " ")
