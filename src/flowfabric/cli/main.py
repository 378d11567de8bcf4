"""Parse the command line of `ff` and run the command."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

import flowfabric
from flowfabric.cli.commands import (
    admin,
    approve,
    bench,
    cancel,
    completion,
    dev,
    doctor,
    explain,
    history,
    inspect,
    kinds,
    lanes,
    migrate,
    pause,
    ps,
    replay,
    server,
    signal,
    submit,
    tail,
    unpause,
    waitpoints,
    worker,
    workers,
)
from flowfabric.cli.support.exit_codes import CommandError, ExitCode, exit_code_of, message_of
from flowfabric.cli.support.parsers import long_options, subcommands
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.resolve import without_password
from flowfabric.variables import BadSetting

RUN: Final = (dev, server, worker, submit)
LOOK: Final = (kinds, ps, lanes, workers, waitpoints, inspect, explain, history, tail)
OPERATE: Final = (signal, approve, cancel, pause, unpause, replay)
MAINTAIN: Final = (migrate, doctor, bench, admin)
COMMANDS: Final = (*RUN, *LOOK, *OPERATE, *MAINTAIN)
"""The order in which `ff --help` lists the commands."""

OWN_OPTIONS: Final = ("-h", "--help", "--version")
"""The options of `ff` itself; all others belong to a command and follow it."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="ff", description="Durable execution for Python.", epilog="`ff COMMAND --help` says more."
    )
    parser.add_argument("--version", action="version", version=f"flowfabric {flowfabric.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add(commands)
    completion.add(commands, parser)
    return parser


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; unlike argparse, accept the arguments of `submit` after its options, too."""
    parser = build_parser()
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0].startswith("-") and not any(each.startswith(words[0]) for each in OWN_OPTIONS):
        parser.error(f"options come after the command: write `{_move_options(parser, words)}`")
    given, rest = parser.parse_known_args(words)
    arguments = [text for text in rest if not text.startswith("-")]
    if rest and (arguments != rest or not hasattr(given, "arguments")):
        own = _parser_of(parser, given)
        own.error(f"unrecognized arguments: {' '.join(rest)}{_suggest(own, rest)}")
    if rest:
        given.arguments += rest
    return given


def _move_options(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """Return the command line with the options that precede the command moved behind it."""
    names = {name for name, _, _ in subcommands(parser)}
    first = 2 if words[0] == "--store" else 1  # the value of --store may be named like a command
    index = next((each for each in range(first, len(words)) if words[each] in names), len(words))
    command = words[index] if index < len(words) else "COMMAND"
    return f"ff {shlex.join(map(without_password, [command, *words[:index], *words[index + 1 :]]))}"


def _suggest(parser: argparse.ArgumentParser, rest: Sequence[str]) -> str:
    """Suggest the options of a command that are closest to unknown ones."""
    known = long_options(parser)
    unknown = [word.partition("=")[0] for word in rest if word.startswith("--")]
    meant = [near[0] for word in unknown if (near := difflib.get_close_matches(word, known, 1))]
    return f"; did you mean {' and '.join(meant)}?" if meant else ""


def _parser_of(parser: argparse.ArgumentParser, given: argparse.Namespace) -> argparse.ArgumentParser:
    """Return the parser of the given command, whose usage helps more than that of `ff` itself."""
    inner = {name: each for name, _, each in subcommands(parser)}
    return inner.get(given.command, parser)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    given = _parse(argv)
    try:
        code: int = given.run(given)
    except FlowFabricError as error:
        return _fail(message_of(error), exit_code_of(error))
    except BadSetting as error:
        return _fail(str(error), ExitCode.USAGE)
    except CommandError as error:
        return _fail(str(error), error.code)
    except BrokenPipeError:  # the reader is gone, as in `ff ps | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return code


def _fail(text: str, code: ExitCode) -> ExitCode:
    print(f"ff: {text}", file=sys.stderr)
    return code
