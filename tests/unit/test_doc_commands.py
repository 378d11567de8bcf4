"""Whatever commands, options, settings and extras the pages name exist; suites beside this one run the commands."""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from flowfabric.cli.main import build_parser
from flowfabric.cli.support.parsers import subcommands

ROOT = Path(__file__).parents[2]
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [
        *ROOT.glob("*.md"),
        *(page for room in ("docs", "examples", "bench") for page in (ROOT / room).rglob("*.md")),
    ]
}
COMMAND = re.compile(r"(?:^|[`($|;&]|\bexec |bin/)ff(?: [^`\n|;&)]*)?", re.MULTILINE)
SETTING = re.compile(r"\bFF_[A-Z][A-Z_]*[A-Z]\b")
SOURCE = "\n".join(
    path.read_text(encoding="utf-8")
    for room in ("src", "tests/support")
    for path in (ROOT / room).rglob("*.py")
) + (ROOT / "Makefile").read_text(encoding="utf-8")


def commands(text: str) -> list[str]:
    """Return everything that begins with `ff`, in blocks and between backticks."""
    plain = re.sub(r"\\\n\s*", " ", text)
    found = [each.group().lstrip("`($|;&").partition("ff")[2] for each in COMMAND.finditer(plain)]
    return [" ".join(re.sub(r"\s+#.*", "", each).split()) for each in found if each.strip()]


def wrong(command: str, parser: argparse.ArgumentParser) -> str:
    """Say what `ff` does not know in a command; positional arguments may be left out."""
    inner = {name: each for name, _, each in subcommands(parser)}
    words = shlex.split(command.replace("…", ""), posix=True)
    if inner:
        if not words or words[0].startswith("-") or words[0].isupper():
            return "" if {*words} <= {"--help", "--version", "COMMAND"} else command
        return wrong(shlex.join(words[1:]), inner[words[0]]) if words[0] in inner else words[0]
    known = {option for action in parser._actions for option in action.option_strings}
    return ", ".join(
        word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known
    )


def test_commands_are_found_and_checked() -> None:
    text = "`ff ps` and\n```\nRUN=$(ff submit x \\\n  --key k)   # once\n.venv/bin/ff server --flat\n```\n"
    assert commands(text) == ["ps", "submit x --key k", "server --flat"]
    parser = build_parser()
    assert [wrong(each, parser) for each in commands(text)] == ["", "", "--flat"]
    assert wrong("fly", parser) == "fly"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_ff_knows_what_the_page_says(page: str) -> None:
    parser = build_parser()
    assert not [command for command in commands(PAGES[page]) if wrong(command, parser)]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_settings_extras_and_targets_exist(page: str) -> None:
    text = PAGES[page]
    assert not {name for name in SETTING.findall(text) if name not in SOURCE}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name for group in re.findall(r"flowfabric\[([\w,]+)\]", text) for name in group.split(",")}
    assert extras <= project["optional-dependencies"].keys()
    targets = {*re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)}
    assert {*re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)} <= targets
