"""Options and arguments that several commands take."""

from __future__ import annotations

import argparse

from flowfabric.model import checks
from flowfabric.model.errors import invalid

ID_HELP = "the execution: its id, its UUID, or the beginning of its UUID"


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """Add `--store` and `--json`."""
    parser.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="path, valkey://… or http://server:9090 (default: FF_STORE, else a file in your data folder)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_id(parser: argparse.ArgumentParser) -> None:
    """Add the required argument `ID`."""
    parser.add_argument("id", metavar="ID", help=ID_HELP)


def add_reason(parser: argparse.ArgumentParser, about: str = "why, for its history") -> None:
    """Add `--reason`."""
    parser.add_argument("--reason", default="", help=about)


def add_limit(parser: argparse.ArgumentParser, default: int) -> None:
    """Add `--limit`."""
    parser.add_argument(
        "--limit", type=int, default=default, metavar="N", help=f"how many at most (default: {default})"
    )


def parse_tags(texts: list[str]) -> tuple[tuple[str, str], ...]:
    """Read tags that are written KEY=VALUE."""
    tags: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise invalid("tag", f"write KEY=VALUE, not {text!r}")
        tags[key] = value
    return checks.tags(tags)
