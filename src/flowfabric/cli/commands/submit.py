"""`ff submit`: submit work."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any, Final

from flowfabric.app import TaskFailed
from flowfabric.cli.support.exit_codes import CommandError, ExitCode
from flowfabric.cli.support.options import parse_tags
from flowfabric.cli.support.pages import find_kind
from flowfabric.cli.support.policy import check_policy
from flowfabric.cli.support.progress import ProgressLine
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.task_arguments import check_input, parse_arguments
from flowfabric.cli.support.text import short_id
from flowfabric.cli.support.unknown_names import warn_about_names
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
BATCH_SIZE: Final = 200
"""The number of executions that are submitted in one call."""


def add(commands: Any) -> None:
    """Add the parser of `ff submit`."""
    parser = add_store_command(commands, "submit", "submit work, and print its id", submit, creates=True)
    parser.add_argument("kind", metavar="KIND", help="the name of the task, as in @app.task")
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="NAME=VALUE",
        help="arguments by name; a value is JSON, or else text, according to the task's published types",
    )
    parser.add_argument(
        "--input", metavar="JSON", help="all arguments as JSON; @FILE reads a file, - reads standard input"
    )
    parser.add_argument(
        "--each",
        metavar="FILE",
        default="",
        help="submit one execution for each line of a file, its input as JSON; - reads standard input",
    )
    parser.add_argument("--raw", action="store_true", help="the input is bytes, not JSON")
    parser.add_argument("--lane", help="the lane (default: that of the task, else default)")
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="send the arguments even if they do not match those that the task's worker has published",
    )
    parser.add_argument("--namespace", default=NAMESPACE, help="the namespace (default: default)")
    parser.add_argument(
        "--priority",
        type=int,
        metavar="N",
        help="0 to 9000; higher comes first (default: that of the task, else 0)",
    )
    parser.add_argument(
        "--key",
        default="",
        help="idempotency key: a second submission returns the first one; with --each, lines have KEY:NUMBER",
    )
    parser.add_argument("--delay", metavar="DURATION", help="start after this time, as in 30s, 2m or 1d")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="KEY=VALUE", help="a tag; may be repeated"
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="print the id on standard error, wait for the end, and print the result",
    )
    parser.add_argument("--timeout", metavar="DURATION", help="with --wait: how long to wait at most")
    parser.add_argument(
        "--policy",
        metavar="JSON",
        default="",
        help="retries, timeouts and so on as JSON; @FILE reads a file",
    )


async def submit(session: CommandSession) -> int:
    """Submit one execution, or one for each line of a file."""
    given = session.given
    if given.each:
        return await _submit_each(session)
    _check_options(given)
    kind = await find_kind(session.store, given.kind, given.namespace)
    data, encoding = _input(given, None if given.no_check else kind)
    warnings = await warn_about_names(session, kind)
    answer = await session.store.apply(with_defaults(_creation(session, data, encoding, given.key), kind))
    if given.wait and not session.json:  # on standard error: standard output is for the result alone
        print(answer.execution_id, file=sys.stderr, flush=True)
    _print_warnings(warnings)
    if given.wait:
        return await _wait(session, _document(answer))
    session.report(_document(answer), answer.execution_id)
    return 0


def _creation(session: CommandSession, data: bytes, encoding: str, key: str) -> CreateExecution:
    """Return the command; its lane is empty if none was given."""
    given = session.given
    delay = None if given.delay is None else millis(given.delay, "delay")
    if given.priority is not None:
        checks.integer("priority", given.priority, 0, MAX_PRIORITY)
    lane = "" if given.lane is None else checks.lane(given.lane, "lane")
    uuid, counts = new_uuid(), session.store.partitions
    return CreateExecution(
        execution_id=for_key(given.namespace, key, uuid, counts) if key else spread(uuid, counts),
        execution_kind=given.kind,
        lane_id=lane,
        namespace=given.namespace,
        input_payload=data,
        payload_encoding=encoding,
        priority=given.priority,
        idempotency_key=key,
        tags=parse_tags(given.tag),
        policy=_policy(given),
        delay_ms=delay,
        actor="ff",
    )


def _policy(given: argparse.Namespace) -> bytes:
    if not given.policy:
        return b""
    text = _read("policy", given.policy)
    check_policy(text)
    return text


def _document(answer: Created | Duplicate) -> dict[str, Any]:
    return {
        "execution_id": answer.execution_id,
        "public_state": str(answer.public_state),
        "duplicate": isinstance(answer, Duplicate),
    }


async def _submit_each(session: CommandSession) -> int:
    """Submit one execution per line, and print their ids; all lines are checked before anything is submitted."""
    given = session.given
    if given.arguments or given.input is not None or given.raw or given.wait:
        raise invalid(
            "each", "takes its inputs from the file: leave out NAME=VALUE, --input, --raw and --wait"
        )
    text = "-" if given.each == "-" else f"@{given.each}"
    lines = _read("each", text, check=False).splitlines()
    kind = await find_kind(session.store, given.kind, given.namespace)
    to_check = None if given.no_check else kind
    creations = [
        with_defaults(
            _creation(
                session,
                _check_line(number, line, to_check),
                "json",
                f"{given.key}:{number}" if given.key else "",
            ),
            kind,
        )
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    _print_warnings(await warn_about_names(session, kind))
    # On a terminal the ids themselves show the progress.
    async with ProgressLine(
        "submitting", len(creations), quiet=session.json or session.output.is_terminal
    ) as progress:
        for start in range(0, len(creations), BATCH_SIZE):
            first_error = None
            for answer in await session.store.apply_many(creations[start : start + BATCH_SIZE]):
                if isinstance(answer, FlowFabricError):
                    first_error = first_error or answer
                    continue
                session.report(_document(answer), answer.execution_id)
                progress.done += 1
            if first_error is not None:  # after the ids of those that were accepted
                raise first_error
    return 0


def _check_line(number: int, line: bytes, kind: Kind | None) -> bytes:
    try:
        json.loads(line)
        check_input(kind, line)
    except InvalidInput as error:
        raise invalid("each", f"line {number}: {error}") from error
    except ValueError as error:
        raise invalid("each", f"line {number} is not JSON ({error})") from error
    return line


async def _wait(session: CommandSession, document: dict[str, Any]) -> int:
    """Wait for the end, and print the result."""
    run = session.run(document["execution_id"])
    try:
        result = await run.result(timeout=session.given.timeout)
    except TimeoutError as error:
        raise CommandError(f"{error}; {_follow_up(session, run.id)}", ExitCode.TIMEOUT) from error
    except asyncio.CancelledError:  # Ctrl-C
        print(f"\nff: {_follow_up(session, run.id)}", file=sys.stderr)
        raise
    except TaskFailed as error:
        raise CommandError(str(error)) from error
    shown = base64.b64encode(result).decode() if isinstance(result, bytes) else result
    session.output.json(document | {"public_state": "completed", "result": shown} if session.json else shown)
    return 0


def _follow_up(session: CommandSession, execution_id: str) -> str:
    """Return how to inspect, follow and cancel a run whose end is no longer awaited."""
    short = short_id(execution_id)
    lines = [session.next_command(f"{verb} {short}") for verb in ("inspect", "tail --follow", "cancel")]
    return f"the run goes on; see it with `{lines[0]}`, follow it with `{lines[1]}`, end it with `{lines[2]}`"


def _check_options(given: argparse.Namespace) -> None:
    """Raise `InvalidInput` for options that exclude each other."""
    if given.input is not None and given.arguments:
        raise invalid("input", "give --input or NAME=VALUE, not both")
    if given.input is None and given.raw:
        raise invalid("raw", "describes --input; give that, too")


def _input(given: argparse.Namespace, kind: Kind | None) -> tuple[bytes, str]:
    """Return the input and its encoding; a kind checks it."""
    if given.input is None:
        return json.dumps(parse_arguments(kind, given.arguments)).encode(), "json"
    data = _read("input", given.input, check=not given.raw)
    if given.raw:
        return data, "bytes"
    check_input(kind, data)
    return data, "json"


def _print_warnings(warnings: list[str]) -> None:
    for warning in warnings:
        print(f"note: {warning}", file=sys.stderr, flush=True)


def _read(field: str, text: str, *, check: bool = True) -> bytes:
    """Return the value of an option, or the file that it names; `check` that it is JSON."""
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
            field, f"is not JSON ({error}); quote it for the shell, as in '{{\"page\": 1}}'"
        ) from error
    return data
