"""`ff submit`: work for whoever knows its kind."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any, Final

from flowfabric.app import TaskFailed
from flowfabric.cli.advice import advice
from flowfabric.cli.arguments import check_input, read_arguments
from flowfabric.cli.desk import Desk, command, short_id
from flowfabric.cli.exits import Exit, Refused
from flowfabric.cli.kinds import published
from flowfabric.cli.listing import tags_of
from flowfabric.cli.policies import check_policy
from flowfabric.cli.progress import Progress
from flowfabric.codecs import millis
from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError, InvalidInput, invalid
from flowfabric.model.ids import for_key, spread
from flowfabric.model.kinds import with_defaults
from flowfabric.model.limits import MAX_PRIORITY
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.records import Kind
from flowfabric.storage.minting import new_uuid

NAMESPACE: Final = "default"
GROUP: Final = 200
"""So many are submitted in one call."""


def add(commands: Any) -> None:
    """Describe the command."""
    parser = command(commands, "submit", "submit work of a kind, and print its id", submit, creates=True)
    parser.add_argument("kind", metavar="KIND", help="what the work is called, as in @app.task")
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="NAME=VALUE",
        help="arguments by name; a value is JSON, or else text; of the published type, if it is simple",
    )
    parser.add_argument(
        "--input", metavar="JSON", help="all arguments as JSON; @FILE reads a file, - standard input"
    )
    parser.add_argument(
        "--each",
        metavar="FILE",
        default="",
        help="submit one for each line of a file, its input in JSON; - standard input",
    )
    parser.add_argument("--raw", action="store_true", help="the input is bytes, not JSON")
    parser.add_argument("--lane", help="which lane it waits in (default: its task's, else default)")
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="send the arguments even if they are not those that the task's worker has published",
    )
    parser.add_argument("--namespace", default=NAMESPACE, help="whose it is (default: default)")
    parser.add_argument(
        "--priority",
        type=int,
        metavar="N",
        help="0 to 9000; the higher, the earlier (default: its task's, else 0)",
    )
    parser.add_argument(
        "--key",
        default="",
        help="of two submissions with one key the second finds the first; with --each, each line has KEY:NUMBER",
    )
    parser.add_argument(
        "--delay", metavar="DURATION", help="start no earlier than after, for example, 30s, 2m or 1d"
    )
    parser.add_argument(
        "--tag", action="append", default=[], metavar="KEY=VALUE", help="a label; may be repeated"
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="show its id on standard error, wait for its end, and print its result",
    )
    parser.add_argument("--timeout", metavar="DURATION", help="with --wait: how long at most")
    parser.add_argument(
        "--policy",
        metavar="JSON",
        default="",
        help="retries, timeouts, … as JSON; @FILE reads a file",
    )


async def submit(desk: Desk) -> int:
    """Submit one execution, or one for each line of a file."""
    given = desk.given
    if given.each:
        return await _submit_each(desk)
    _check_form(given)
    kind = await published(desk, given.kind, given.namespace)
    data, encoding = _input(given, None if given.no_check else kind)
    notes = await advice(desk, kind)
    answer = await desk.store.apply(with_defaults(_order(desk, data, encoding, given.key), kind))
    if given.wait and not desk.json:  # on standard error, because the result alone is what others read
        print(answer.execution_id, file=sys.stderr, flush=True)
    _remark(notes)
    if given.wait:
        return await _wait(desk, _told(answer))
    desk.say(_told(answer), answer.execution_id)
    return 0


def _order(desk: Desk, data: bytes, encoding: str, key: str) -> CreateExecution:
    """Say what is to be made; its lane is empty when it is left out."""
    given = desk.given
    delay = None if given.delay is None else millis(given.delay, "delay")
    if given.priority is not None:
        checks.integer("priority", given.priority, 0, MAX_PRIORITY)
    lane = "" if given.lane is None else checks.lane(given.lane, "lane")
    uuid, counts = new_uuid(), desk.store.partitions
    return CreateExecution(
        execution_id=for_key(given.namespace, key, uuid, counts) if key else spread(uuid, counts),
        execution_kind=given.kind, lane_id=lane, namespace=given.namespace, input_payload=data,
        payload_encoding=encoding, priority=given.priority, idempotency_key=key, tags=tags_of(given.tag),
        policy=_policy(given), delay_ms=delay, actor="ff",
    )  # fmt: skip


def _policy(given: argparse.Namespace) -> bytes:
    if not given.policy:
        return b""
    text = _read("policy", given.policy)
    check_policy(text)
    return text


def _told(answer: Created | Duplicate) -> dict[str, Any]:
    return {
        "execution_id": answer.execution_id,
        "public_state": str(answer.public_state),
        "duplicate": isinstance(answer, Duplicate),
    }


async def _submit_each(desk: Desk) -> int:
    """Submit many, and print an id for each line; all lines are looked at before anything is submitted."""
    given = desk.given
    if given.arguments or given.input is not None or given.raw or given.wait:
        raise invalid("each", "takes its inputs from the file: leave NAME=VALUE, --input, --raw and --wait")
    text = "-" if given.each == "-" else f"@{given.each}"
    lines = _read("each", text, check=False).splitlines()
    kind = await published(desk, given.kind, given.namespace)
    to_check = None if given.no_check else kind
    orders = [
        with_defaults(
            _order(
                desk, _checked(number, line, to_check), "json", f"{given.key}:{number}" if given.key else ""
            ),
            kind,
        )
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    _remark(await advice(desk, kind))
    # On a terminal the ids themselves show how far it is.
    async with Progress("submitting", len(orders), quiet=desk.json or desk.screen.terminal) as progress:
        for start in range(0, len(orders), GROUP):
            refusal = None
            for answer in await desk.store.apply_many(orders[start : start + GROUP]):
                if isinstance(answer, FlowFabricError):
                    refusal = refusal or answer
                    continue
                desk.say(_told(answer), answer.execution_id)
                progress.done += 1
            if refusal is not None:  # told after the ids of those that were taken
                raise refusal
    return 0


def _checked(number: int, line: bytes, kind: Kind | None) -> bytes:
    try:
        json.loads(line)
        check_input(kind, line)
    except InvalidInput as error:
        raise invalid("each", f"line {number}: {error}") from error
    except ValueError as error:
        raise invalid("each", f"line {number} is no JSON ({error})") from error
    return line


async def _wait(desk: Desk, told: dict[str, Any]) -> int:
    """Wait for the end, and print the result; the log says why when it does not come."""
    run = desk.run(told["execution_id"])
    try:
        result = await run.result(timeout=desk.given.timeout)
    except TimeoutError as error:
        raise Refused(f"{error}; {_goes_on(desk, run.id)}", Exit.TIMEOUT) from error
    except asyncio.CancelledError:  # Ctrl-C
        print(f"\nff: {_goes_on(desk, run.id)}", file=sys.stderr)
        raise
    except TaskFailed as error:
        raise Refused(str(error)) from error
    shown = base64.b64encode(result).decode() if isinstance(result, bytes) else result
    desk.screen.json(told | {"public_state": "completed", "result": shown} if desk.json else shown)
    return 0


def _goes_on(desk: Desk, execution_id: str) -> str:
    """Say how to see, follow and end a run that nobody waits for any more."""
    short = short_id(execution_id)
    lines = [desk.again(f"{verb} {short}") for verb in ("inspect", "tail --follow", "cancel")]
    return f"the run goes on; see it with `{lines[0]}`, follow it with `{lines[1]}`, end it with `{lines[2]}`"


def _check_form(given: argparse.Namespace) -> None:
    """Refuse ways of saying the input that exclude each other."""
    if given.input is not None and given.arguments:
        raise invalid("input", "give --input or NAME=VALUE, not both")
    if given.input is None and given.raw:
        raise invalid("raw", "says how --input is meant; give that, too")


def _input(given: argparse.Namespace, kind: Kind | None) -> tuple[bytes, str]:
    """Return the input and how it is written; a kind says what it must be."""
    if given.input is None:
        return json.dumps(read_arguments(kind, given.arguments)).encode(), "json"
    data = _read("input", given.input, check=not given.raw)
    if given.raw:
        return data, "bytes"
    check_input(kind, data)
    return data, "json"


def _remark(notes: list[str]) -> None:
    """Say what may be a mistake, and need not be one."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr, flush=True)


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
