"""The Lua library: what it is built of, and that the server and the Python machine mean the same by it."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec
import pytest

from flowfabric.model import records
from flowfabric.model.command import HolderCommand
from flowfabric.model.operations.finish import Complete
from flowfabric.storage.valkey import ValkeyStore, keys
from flowfabric.storage.valkey.codec import BYTES, FORMS
from flowfabric.storage.valkey.executions import FIXED, HOT, RARE
from flowfabric.storage.valkey.lua.generated import lua, tables
from flowfabric.storage.valkey.lua.library import FOLDER, VERSION, library, parts
from flowfabric.storage.valkey.operations import OPERATIONS
from support.driver import Driver

LUA = sorted(FOLDER.rglob("*.lua"))
MAX_LINES = 200


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.stem)
def test_a_file_stays_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_the_usual_file_is_very_small() -> None:
    assert median(len(path.read_text(encoding="utf-8").splitlines()) for path in LUA) < 80


@pytest.mark.parametrize("path", sorted((FOLDER / "operations").glob("*.lua")), ids=lambda path: path.stem)
def test_an_operation_says_what_it_takes_answers_and_keeps(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    functions = re.findall(r"(?:ff\.operation\(|redis\.register_function\(|function_name = )'(\w+)'", text)
    assert functions
    for name in functions:
        head = re.split(rf"^-- {name}\b", text, flags=re.MULTILINE)[1].split("\n\n", maxsplit=1)[0]
        for word in ("Keys", "Command", "Reply", "Keeps"):
            assert f"\n-- {word} " in head, (name, word)


def test_every_function_that_is_called_is_registered() -> None:
    code = library().code
    registered = set(re.findall(r"ff_operation\('(\w+)', '(\w+)'", code))
    called = {(known.function, kind.__name__) for kind, known in OPERATIONS.items()}
    assert registered == called | {("ff_seen", "Claim")}  # a cluster says it beside a claim


def test_every_file_is_part_of_the_library() -> None:
    assert sorted(parts()) == LUA
    assert all(f";(function() -- {path.relative_to(FOLDER)}\n" in library().code for path in LUA)


def test_lines_of_the_library_are_those_of_the_sources() -> None:
    """So that an error of the server can be shown with its file and line."""
    code = library().code.splitlines()
    starts = [place for place, line in enumerate(code) if line.startswith(";(function() -- ")]
    lengths = {code[start][16:]: end - start - 2 for start, end in pairwise(starts)}
    for path in LUA:
        assert lengths[str(path.relative_to(FOLDER))] == len(path.read_text(encoding="utf-8").splitlines())


async def test_an_error_of_the_server_names_file_and_line(ff: Driver) -> None:
    assert isinstance(ff.store, ValkeyStore)
    (error,) = await ff.store.client.functions([("FCALL", "ff_commit", 1, "ff:", "1", VERSION, "", "", "x")])
    place = re.search(r"commit\.lua:(\d+)", str(error))
    assert place is not None
    assert "#reads" in (FOLDER / "commit.lua").read_text(encoding="utf-8").splitlines()[int(place[1]) - 1]


def test_the_library_can_be_written_to_disk(tmp_path: Path) -> None:
    target = tmp_path / "library.lua"
    subprocess.run([sys.executable, "-m", "flowfabric.storage.valkey.lua.library", target], check=True)
    assert target.read_text(encoding="utf-8") == library().code


def test_the_digest_names_the_text() -> None:
    assert f"DIGEST = {{}}, {VERSION}, '{library().digest}'" in library().code
    assert library() == library()


def test_fields_have_their_places() -> None:
    text = tables()
    attempt = records.Attempt.__struct_fields__
    assert f"['suspended_at'] = {attempt.index('suspended_at') + 1}" in text
    assert f"['result'] = {Complete.__struct_fields__.index('result') + 1}" in text


def test_commands_of_holders_begin_alike() -> None:
    """`holding` stands for any of them."""
    first = HolderCommand.__struct_fields__
    kinds = [kind for kind in OPERATIONS if issubclass(kind, HolderCommand)]
    assert len(kinds) >= 5
    assert all(kind.__struct_fields__[: len(first)] == first for kind in kinds)


def test_an_execution_lies_in_parts_that_hold_all_of_it() -> None:
    assert sorted([*HOT, *RARE, *FIXED]) == sorted([*records.Execution.__struct_fields__, "rest"])
    assert HOT[-1] == "attempt"  # packed apart: what is default at its end is left out


def test_only_fields_of_bytes_stand_apart() -> None:
    found = {
        kind: [field.name for field in msgspec.structs.fields(form) if field.type is bytes]
        for kind, form in FORMS.items()
    }
    assert {kind: names[0] for kind, names in found.items() if names} == BYTES
    assert all(len(names) <= 1 for names in found.values())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nil"),
        (True, "true"),
        (1, "1"),
        (2**53 - 1, "9007199254740991"),
        (2.5, "2.5"),
        ("it's\n", "'it\\039s\\010'"),
        ((1, ("a",)), "{1, {'a'}}"),
        ({"a": 1, "b": None}, "{['a'] = 1}"),
    ],
)
def test_values_are_written_as_lua(value: object, text: str) -> None:
    assert lua(value) == text


def test_both_sides_name_the_same_keys() -> None:
    names = (FOLDER / "keys.lua").read_text(encoding="utf-8")
    for name in (
        keys.ARRIVALS,
        keys.FEED,
        keys.FEED_FLOOR,
        keys.DUE,
        keys.TALLY,
        keys.INBOX,
        keys.MEMOS,
        keys.LANES,
        keys.WORKERS,
        keys.TOKENS,
        keys.KEYRING,
        keys.CLAIM,
        keys.STATE,
        keys.LEASES,
        keys.MEMO,
        keys.CHANNEL,
    ):
        assert f"'{name}'" in names
