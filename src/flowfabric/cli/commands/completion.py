"""`ff completion`: print a completion script for a shell, derived from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, Final

from flowfabric.cli.support.parsers import actions_of, option_choices, subcommands

SHELLS: Final = ("bash", "zsh", "fish")
ABOUT: Final = "print a script that completes `ff` in a shell"


def add(commands: Any, parser: argparse.ArgumentParser) -> None:
    """Add the parser of `ff completion`."""
    own = commands.add_parser("completion", help=ABOUT, description=ABOUT)
    own.add_argument("shell", choices=SHELLS, help="your shell")
    own.set_defaults(run=lambda given: _print(given.shell, parser))


def _print(shell: str, parser: argparse.ArgumentParser) -> int:
    print(SCRIPTS[shell](parser))
    return 0


def _completions(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield each command with its help text, and the words that may follow it with theirs."""
    for name, about, each in subcommands(parser):
        inner = list(subcommands(each))
        words = [(word, text) for word, text, _ in inner]
        for one in (each, *(own for _, _, own in inner)):
            for action in actions_of(one):
                words += [
                    (option, action.help or "") for option in action.option_strings if option.startswith("--")
                ]
                if not action.option_strings:
                    words += [(str(choice), "") for choice in action.choices or ()]
        yield name, about, list(dict(words).items())


def _bash(parser: argparse.ArgumentParser) -> str:
    found = list(_completions(parser))
    cases = "\n".join(f"    {name}) words='{_words(words)}' ;;" for name, _, words in found)
    taken = "\n".join(
        f"    {option}) words='{' '.join(texts)}' ;;" for option, texts in option_choices(parser).items()
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
    found = list(_completions(parser))
    cases = "\n".join(f"    {name}) compadd -- {_words(words)}; _files ;;" for name, _, words in found)
    taken = "\n".join(
        f"    {option}) compadd -- {' '.join(texts)}; return ;;"
        for option, texts in option_choices(parser).items()
    )
    commands = "\n".join(f"    '{name}:{_plain(about)}'" for name, about, _ in found)
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
    lines, taken = ["# ff completion fish | source"], option_choices(parser)
    for name, about, words in _completions(parser):
        lines.append(f"complete -c ff -n __fish_use_subcommand -f -a {name} -d '{_plain(about)}'")
        for word, text in words:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            what += f" -x -a '{' '.join(taken[word])}'" if word in taken else ""
            lines.append(f"complete -c ff -n '__fish_seen_subcommand_from {name}' {what} -d '{_plain(text)}'")
    return "\n".join(lines)


def _words(words: list[tuple[str, str]]) -> str:
    return " ".join(word for word, _ in words)


def _plain(text: str) -> str:
    """Remove characters that a shell would interpret."""
    return text.replace("'", "").replace("`", "").replace(":", "\\:")


SCRIPTS: Final[dict[str, Callable[[argparse.ArgumentParser], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
