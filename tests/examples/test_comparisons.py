"""What the tables for people from elsewhere name is there: methods, options, attributes, and what is imported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flowfabric
from flowfabric import Context, FlowFabric
from flowfabric.app.app_worker import AppWorker
from flowfabric.app.run import Run
from flowfabric.app.sync import SyncFlowFabric
from flowfabric.app.views import Status
from flowfabric.worker.options import Options

EXAMPLES = Path(__file__).parents[2] / "examples"
TABLES = ("from_arq", "from_celery")
OWNERS = {
    "app": FlowFabric,
    "app.sync": SyncFlowFabric,
    "ctx": Context,
    "run": Run,
    "": Run,
    "app.worker()": AppWorker,
}
RUN = FlowFabric("never.opened").run("{fp:0}:00000000-0000-4000-8000-000000000000")
CALL = re.compile(r"^@?(app\.sync|app\.worker\(\)|app|ctx|run|)\.(\w+)(?:\(([^)]*)\))?")


def right_hand(folder: str) -> list[str]:
    """Return every piece of code in the column of what is written here."""
    lines = (EXAMPLES / folder / "README.md").read_text(encoding="utf-8").splitlines()
    cells = [line.split(" | ", 1)[1] for line in lines if line.startswith(("| `", "| any"))]
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("folder", TABLES)
def test_what_a_table_names_is_there(folder: str) -> None:
    pieces = right_hand(folder)
    assert len(pieces) > 30
    for piece in pieces:
        code = re.sub(r"^(await|raise) |^asyncio\.run\(", "", piece)
        called = CALL.match(code)
        if called is None:
            continue
        owner, name, given = called.groups()
        assert hasattr(OWNERS[owner], name) or name in vars(RUN), piece
        if name in {"options", "task"}:
            for option in re.findall(r"(\w+)=", given or ""):
                assert option == "executor" or option in Options.__dataclass_fields__, piece
    for name in ("retries", "timeout", "retention", "retry_on", "backoff", "deadline"):
        assert name in Options.__dataclass_fields__
    for word in re.findall(r"\b(?:TaskFailed|Retry|Permanent|SyncContext|Context)\b", " ".join(pieces)):
        assert hasattr(flowfabric, word), word
    assert {"state", "progress", "message"} <= set(Status.__struct_fields__)
    assert hasattr(Status, "ended")
