"""Every link of every page leads to a file that is there and, where it names a heading, to that heading."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for room in ("docs", "examples", "bench") for page in (ROOT / room).rglob("*.md")),
    ]
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    """Return where a page leads within the project."""
    return [target for target in LINK.findall(CODE.sub("", text)) if not re.match(r"[a-z]+:", target)]


def anchor(heading: str) -> str:
    """Write a heading as links name it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    return {
        anchor(heading)
        for heading in re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    }


def test_headings_and_links_are_found() -> None:
    assert anchor("`FlowFabric.submit_many`, and [more](x.md)!") == "flowfabricsubmit_many-and-more"
    assert links("[a](b.md#c) [`d`](https://e) \n```\n[f](g)\n```\n") == ["b.md#c"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page.read_text(encoding="utf-8")):
        file, _, heading = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), target
        assert not heading or heading in anchors(there), target


def test_the_design_index_lists_every_page() -> None:
    index = links((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))
    pages = {f"design/{page.name}" for page in (ROOT / "docs" / "design").glob("*.md")}
    assert pages
    assert pages <= {*index}
