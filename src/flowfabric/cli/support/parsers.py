"""Read the commands, options and choices of an argparse parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator


def subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield the name, the help text and the parser of each subcommand that has a help text."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to inspect a parser
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for shown in action._choices_actions:  # noqa: SLF001
                yield shown.dest, shown.help or "", action.choices[shown.dest]


def long_options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long options of a command and of its subcommands."""
    parsers = (parser, *(each for _, _, each in subcommands(parser)))
    options = (option for each in parsers for action in actions_of(each) for option in action.option_strings)
    return [option for option in dict.fromkeys(options) if option.startswith("--")]


def option_choices(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Return the options of all commands that take one of a few words, with these words."""
    return {
        option: [str(choice) for choice in action.choices]
        for _, _, each in subcommands(parser)
        for action in actions_of(each)
        for option in action.option_strings
        if action.choices
    }


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of a parser that its help shows."""
    for action in parser._actions:  # noqa: SLF001 - as above
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield action
