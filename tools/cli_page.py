"""Writes the page about `ff` from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from flowfabric.cli.main import build_parser
from flowfabric.cli.support.parsers import subcommands


def commands() -> Iterator[str]:
    """Write one part for each command, with everything that may follow it."""
    for _, about, parser in subcommands(build_parser()):
        yield from _command(parser, about)


def _command(parser: argparse.ArgumentParser, about: str) -> Iterator[str]:
    yield f"## `{parser.prog}`\n"
    yield f"{about[:1].upper()}{about[1:]}.\n"
    inner = list(subcommands(parser))
    for _, text, each in inner:
        yield from _command(each, text)
    rows = [] if inner else [row for action in parser._actions for row in _row(action)]  # noqa: SLF001 - see completion
    if rows:
        yield "| | |\n| --- | --- |\n" + "".join(f"| `{name}` | {text} |\n" for name, text in rows)


def _row(action: argparse.Action) -> Iterator[tuple[str, str]]:
    if action.help in {None, argparse.SUPPRESS} or action.dest == "help":
        return
    place = str(action.metavar or "/".join(map(str, action.choices or ())) or action.dest.upper())
    value = "" if action.nargs == 0 else f" {place}"
    name = ", ".join(f"{option}{value}" for option in action.option_strings) or place
    yield name.replace("|", " or "), str(action.help).replace("|", "\\|")
