"""Docstrings as Markdown: code after a `::` becomes a block, and names that have a place become links to it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator

Link = Callable[[str], str]
"""Says where a name is explained; empty: nowhere."""
_NAMED = re.compile(r"`([A-Za-z_][\w.]*)(\(\))?`")


def docstring(thing: object) -> str:
    """Return what is said about a thing itself, not about what it derives from."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def first_sentence(text: str) -> str:
    """Return how a docstring begins, without the code that it ends in."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:])\s", paragraph, maxsplit=1)[0] if ". " in paragraph else paragraph
    return sentence.rstrip(":") + ("." if not sentence.endswith((".", "…")) else "")


def markdown(text: str, link: Link = lambda _: "") -> str:
    """Write a docstring as Markdown."""
    return "\n\n".join(_linked(part, link) if not code else part for code, part in _parts(text)) + "\n"


def one_line(text: str, link: Link = lambda _: "") -> str:
    """Write a docstring without code as one line of Markdown, for tables."""
    return _linked(" ".join(text.split()), link)


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Tell prose and code apart, paragraph by paragraph; code is what stands indented after a `::`."""
    block: list[str] = []
    for paragraph in [*text.split("\n\n"), ""]:
        if paragraph.startswith("    "):
            block.append(paragraph)
            continue
        if block:
            yield True, f"```python\n{textwrap.dedent(f'{chr(10)}{chr(10)}'.join(block))}\n```"
            block = []
        said = paragraph.strip().removesuffix("::").rstrip()
        if said:
            yield False, said + (":" if paragraph.rstrip().endswith("::") else "")


def _linked(text: str, link: Link) -> str:
    def written(found: re.Match[str]) -> str:
        target = link(found[1])
        return f"[{found[0]}]({target})" if target else found[0]

    return _NAMED.sub(written, text)
