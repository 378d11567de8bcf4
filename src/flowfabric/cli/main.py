"""What `ff` understands, and who does it."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import sys
from collections.abc import Sequence

import flowfabric
from flowfabric.cli import (
    admin,
    bench,
    completion,
    dev,
    doctor,
    following,
    histories,
    kinds,
    listing,
    looking,
    migrating,
    operating,
    server,
    signalling,
    submitting,
    working,
)
from flowfabric.cli.exits import Exit, Refused, code_of, sentence
from flowfabric.model.errors import FlowFabricError
from flowfabric.server.variables import BadSetting
from flowfabric.storage.resolve import without_password

ROOMS = (
    dev, server, working, submitting, kinds, listing, looking, histories, following, signalling, operating,
    migrating, doctor, bench, admin,
)  # fmt: skip
"""Each adds its commands, in the order of the list that `ff --help` prints."""

OWN_OPTIONS = ("-h", "--help", "--version")
"""The options of `ff` itself; all others belong to a command."""


def build_parser() -> argparse.ArgumentParser:
    """Describe every command."""
    parser = argparse.ArgumentParser(
        prog="ff", description="Durable execution for Python.", epilog="`ff COMMAND --help` says more."
    )
    parser.add_argument("--version", action="version", version=f"flowfabric {flowfabric.__version__}")
    # Commands without a help text are ours alone; they stay out of the list.
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for room in ROOMS:
        room.add(commands)
    completion.add(commands, parser)
    return parser


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; unlike argparse, take the arguments of `submit` after options, too."""
    parser = build_parser()
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0].startswith("-") and not any(each.startswith(words[0]) for each in OWN_OPTIONS):
        parser.error(f"options come after the command: write `{_after_command(parser, words)}`")
    given, rest = parser.parse_known_args(words)
    loose = [text for text in rest if not text.startswith("-")]
    if rest and (loose != rest or not hasattr(given, "arguments")):
        mine = _of(parser, given)
        mine.error(f"unrecognized arguments: {' '.join(rest)}{_nearest(mine, rest)}")
    if rest:
        given.arguments += rest
    return given


def _after_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """Write a command line again, with the options that stood before the command behind it."""
    names = {name for name, _, _ in completion.subcommands(parser)}
    places = range(2 if words[0] == "--store" else 1, len(words))  # behind what may be the name of a store
    place = next((each for each in places if words[each] in names), len(words))
    command = words[place] if place < len(words) else "COMMAND"
    return f"ff {shlex.join(map(without_password, [command, *words[:place], *words[place + 1 :]]))}"


def _nearest(parser: argparse.ArgumentParser, rest: Sequence[str]) -> str:
    """Suggest the options that were meant by those which a command does not have."""
    known = completion.options(parser)
    unknown = [word.partition("=")[0] for word in rest if word.startswith("--")]
    meant = [near[0] for word in unknown if (near := difflib.get_close_matches(word, known, 1))]
    return f"; did you mean {' and '.join(meant)}?" if meant else ""


def _of(parser: argparse.ArgumentParser, given: argparse.Namespace) -> argparse.ArgumentParser:
    """Return the parser of the command that was given, whose usage helps more than that of `ff` itself."""
    inner = {name: each for name, _, each in completion.subcommands(parser)}
    return inner.get(given.command, parser)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    given = _parse(argv)
    try:
        code: int = given.run(given)
    except FlowFabricError as error:
        return _end(sentence(error), code_of(error))
    except BadSetting as error:
        return _end(str(error), Exit.USAGE)
    except Refused as error:
        return _end(str(error), error.code)
    except BrokenPipeError:  # whoever read what we wrote has gone, as in `ff ps | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return code


def _end(text: str, code: Exit) -> Exit:
    print(f"ff: {text}", file=sys.stderr)
    return code
