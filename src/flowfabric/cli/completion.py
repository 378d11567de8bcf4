"""`ff completion`: what shells need to complete commands, written from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, Final

SHELLS: Final = ("bash", "zsh", "fish")
ABOUT: Final = "print what a shell needs to complete `ff`"


def add(commands: Any, parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    mine = commands.add_parser("completion", help=ABOUT, description=ABOUT)
    mine.add_argument("shell", choices=SHELLS, help="your shell")
    mine.set_defaults(run=lambda given: _print(given.shell, parser))


def _print(shell: str, parser: argparse.ArgumentParser) -> int:
    print(SCRIPTS[shell](parser))
    return 0


def offers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield each command, what it is for, and the words that may follow it, with theirs."""
    for name, about, each in subcommands(parser):
        inner = list(subcommands(each))
        words = [(word, text) for word, text, _ in inner]
        for one in (each, *(mine for _, _, mine in inner)):
            for action in _actions(one):
                words += [
                    (option, action.help or "") for option in action.option_strings if option.startswith("--")
                ]
                if not action.option_strings:
                    words += [(str(choice), "") for choice in action.choices or ()]
        yield name, about, list(dict(words).items())


def options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long options of a command and of its own subcommands."""
    parsers = (parser, *(each for _, _, each in subcommands(parser)))
    found = (option for each in parsers for action in _actions(each) for option in action.option_strings)
    return [option for option in dict.fromkeys(found) if option.startswith("--")]


def values(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Return the options that take one of some words, and these words."""
    return {
        option: [str(choice) for choice in action.choices]
        for _, _, each in subcommands(parser)
        for action in _actions(each)
        for option in action.option_strings
        if action.choices
    }


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to look at a parser
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield action


def subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield the commands of a parser that are for users."""
    for action in parser._actions:  # noqa: SLF001 - as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for shown in action._choices_actions:  # noqa: SLF001
                yield shown.dest, shown.help or "", action.choices[shown.dest]


def _bash(parser: argparse.ArgumentParser) -> str:
    found = list(offers(parser))
    cases = "\n".join(f"    {name}) words='{_words(words)}' ;;" for name, _, words in found)
    taken = "\n".join(
        f"    {option}) words='{' '.join(texts)}' ;;" for option, texts in values(parser).items()
    )
    return f"""# eval "$(ff completion bash)"
_ff() {{
  local words='{" ".join(name for name, _, _ in found)} --help --version'
  ((COMP_CWORD > 1)) && case ${{COMP_WORDS[1]}} in
{cases}
    *) words='' ;;
  esac
  case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{taken}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F _ff ff"""


def _zsh(parser: argparse.ArgumentParser) -> str:
    found = list(offers(parser))
    cases = "\n".join(f"    {name}) compadd -- {_words(words)}; _files ;;" for name, _, words in found)
    taken = "\n".join(
        f"    {option}) compadd -- {' '.join(texts)}; return ;;" for option, texts in values(parser).items()
    )
    commands = "\n".join(f"    '{name}:{_quiet(about)}'" for name, about, _ in found)
    return f"""# eval "$(ff completion zsh)"
_ff() {{
  local -a commands=(
{commands}
  )
  if ((CURRENT == 2)); then _describe command commands; return; fi
  case $words[CURRENT-1] in
{taken}
  esac
  case $words[2] in
{cases}
  esac
}}
compdef _ff ff"""


def _fish(parser: argparse.ArgumentParser) -> str:
    lines, taken = ["# ff completion fish | source"], values(parser)
    for name, about, words in offers(parser):
        lines.append(f"complete -c ff -n __fish_use_subcommand -f -a {name} -d '{_quiet(about)}'")
        for word, text in words:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            what += f" -x -a '{' '.join(taken[word])}'" if word in taken else ""
            lines.append(f"complete -c ff -n '__fish_seen_subcommand_from {name}' {what} -d '{_quiet(text)}'")
    return "\n".join(lines)


def _words(words: list[tuple[str, str]]) -> str:
    return " ".join(word for word, _ in words)


def _quiet(text: str) -> str:
    """Take out what a shell would read in its own way."""
    return text.replace("'", "").replace("`", "").replace(":", "\\:")


SCRIPTS: Final[dict[str, Callable[[argparse.ArgumentParser], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
