"""`ff submit`: work for whoever knows its kind."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from pathlib import Path
from typing import Any

from flowfabric.app import TaskFailed
from flowfabric.cli.desk import Desk, command
from flowfabric.cli.exits import Exit, Refused
from flowfabric.cli.listing import tags_of
from flowfabric.codecs import millis
from flowfabric.model.contracts.create import CreateExecution, Duplicate
from flowfabric.model.errors import invalid
from flowfabric.model.ids import for_key, spread
from flowfabric.storage.minting import new_uuid

NAMESPACE = "default"


def add(commands: Any) -> None:
    """Describe the command."""
    parser = command(commands, "submit", "submit work of a kind, and print its id", submit, creates=True)
    parser.add_argument("kind", metavar="KIND", help="what the work is called, as in @app.task")
    parser.add_argument(
        "arguments", nargs="*", metavar="NAME=VALUE", help="arguments by name; a value is JSON, or else text"
    )
    parser.add_argument(
        "--input", metavar="JSON", help="all arguments as JSON; @FILE reads a file, - standard input"
    )
    parser.add_argument("--raw", action="store_true", help="the input is bytes, not JSON")
    parser.add_argument("--lane", default="default", help="which lane it waits in (default: default)")
    parser.add_argument("--namespace", default=NAMESPACE, help="whose it is (default: default)")
    parser.add_argument(
        "--priority", type=int, metavar="N", help="0 to 9000; the higher, the earlier (default: 0)"
    )
    parser.add_argument(
        "--key", default="", help="of two submissions with one key the second finds the first"
    )
    parser.add_argument(
        "--delay", metavar="DURATION", help="start no earlier than after, for example, 30s, 2m or 1d"
    )
    parser.add_argument(
        "--tag", action="append", default=[], metavar="KEY=VALUE", help="a label; may be repeated"
    )
    parser.add_argument("--wait", action="store_true", help="wait for its end, and print its result")
    parser.add_argument("--timeout", metavar="DURATION", help="with --wait: how long at most")
    parser.add_argument(
        "--policy", metavar="JSON", default="", help="retries and timeouts as JSON; @FILE reads a file"
    )


async def submit(desk: Desk) -> int:
    """Submit one execution."""
    given = desk.given
    data, encoding = _input(given)
    delay = None if given.delay is None else millis(given.delay, "delay")
    uuid, counts = new_uuid(), desk.store.partitions
    place = for_key(given.namespace, given.key, uuid, counts) if given.key else spread(uuid, counts)
    answer = await desk.store.apply(
        CreateExecution(
            execution_id=place, execution_kind=given.kind, lane_id=given.lane, namespace=given.namespace,
            input_payload=data, payload_encoding=encoding, priority=given.priority, idempotency_key=given.key,
            tags=tags_of(given.tag), policy=_read("policy", given.policy) if given.policy else b"",
            delay_ms=delay, actor="ff",
        )
    )  # fmt: skip
    told = {
        "execution_id": answer.execution_id,
        "public_state": str(answer.public_state),
        "duplicate": isinstance(answer, Duplicate),
    }
    if given.wait:
        return await _wait(desk, told)
    desk.say(told, answer.execution_id)
    return 0


async def _wait(desk: Desk, told: dict[str, Any]) -> int:
    """Wait for the end, and print the result; the log says why when it does not come."""
    run = desk.run(told["execution_id"])
    try:
        result = await run.result(timeout=desk.given.timeout)
    except TimeoutError as error:
        raise Refused(str(error), Exit.TIMEOUT) from error
    except TaskFailed as error:
        raise Refused(str(error)) from error
    shown = base64.b64encode(result).decode() if isinstance(result, bytes) else result
    desk.screen.json(told | {"public_state": "completed", "result": shown} if desk.json else shown)
    return 0


def _input(given: argparse.Namespace) -> tuple[bytes, str]:
    """Return the input and how it is written."""
    if given.input is not None:
        if given.arguments:
            raise invalid("input", "give --input or NAME=VALUE, not both")
        data = _read("input", given.input, check=not given.raw)
        return data, "bytes" if given.raw else "json"
    if given.raw:
        raise invalid("raw", "says how --input is meant; give that, too")
    return json.dumps(dict(map(_argument, given.arguments))).encode(), "json"


def _argument(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not name.isidentifier() or not separator:
        raise invalid("arguments", f"write NAME=VALUE, not {text!r}")
    return name, value_of(value)


def value_of(text: str) -> Any:
    """Read a value as people type it: JSON where it is that, else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read(field: str, text: str, *, check: bool = True) -> bytes:
    """Read what an option says, or the file that it names; `check` that it is JSON."""
    try:
        if text == "-":
            data = sys.stdin.buffer.read()
        else:
            data = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        if check:
            json.loads(data)
    except OSError as error:
        raise invalid(field, f"{text[1:]} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise invalid(
            field, f"is no JSON ({error}); quote it for the shell, as in '{{\"page\": 1}}'"
        ) from error
    return data
