"""What is written: tables that fit, colours where they are wanted, durations."""

from __future__ import annotations

import io

import pytest

from flowfabric.cli.support.output import Output
from flowfabric.cli.support.table import fit_columns
from flowfabric.cli.support.text import printable_lines
from flowfabric.model.times import moment, since, span


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def table(out: io.StringIO) -> list[str]:
    Output(out).table(
        ("id", "state", "note"), [("a1", "failed", "x" * 60), ("a2", "completed", "line\nbreak")]
    )
    return out.getvalue().splitlines()


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = table(io.StringIO())
    assert max(map(len, lines)) == 40
    assert lines[1].endswith("x…")
    assert lines[2] == "a2  completed  line break"


def test_programs_get_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert table(io.StringIO())[1] == f"a1  failed     {'x' * 60}"


def test_the_widest_columns_give_way_first() -> None:
    assert fit_columns([10, 40, 20], 54) == [10, 20, 20]
    assert fit_columns([10, 40, 20], 0) == [10, 40, 20]
    assert fit_columns([12, 40, 40], 29) == [12, 6, 7]
    assert fit_columns([12, 40, 40], 20) == [12, 6, 0]
    assert fit_columns([40, 40], 3) == [40, 0]
    assert fit_columns([10, 40, 20], 64, optional=1) == [
        10,
        40,
        10,
    ]  # what may be spared gives way before the others
    assert fit_columns([10, 40, 20], 54, optional=1) == [10, 40, 0]
    assert fit_columns([10, 40, 20], 34, optional=1) == [10, 22, 0]
    assert fit_columns([10, 40, 20], 0, optional=1) == [10, 40, 20]


def test_ids_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    ids = ("3fba209f394b", "13a33ffec55b")
    Output(out).table(("waitpoint", "execution", "key"), [(*ids, "approve|reject" * 3)])
    assert out.getvalue().splitlines()[1] == "3fba209f394b  13a33ffec55b  approve|rej…"


def test_a_column_without_values_is_left_out() -> None:
    out = io.StringIO()
    Output(out).table(("id", "ended", "note"), [("a", "", "b")])
    assert out.getvalue() == "id  note\na   b\n"


def test_text_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    out, programs = Terminal(), io.StringIO()
    text = "a line that is too long for it http://127.0.0.1:9090/executions\nand  more"
    Output(out).paragraph(text, head="who: ", column=5)
    assert out.getvalue().splitlines() == [
        "who: a line that is too",
        "     long for it",
        "     http://127.0.0.1:9090/executions",
        "     and  more",
    ]
    monkeypatch.delenv("COLUMNS")
    Output(programs).paragraph("long " * 40 + "line")
    assert programs.getvalue().count("\n") == 1


def test_pieces_of_a_text_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = Terminal()
    output = Output(out)
    for piece in ("it ", "keeps what ", "is", " done, and", " does the\nrest"):
        output.write(piece, head="who: ", column=5)
    output.line("end")
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "who: it keeps what",
        "     is done, and",
        "     does the",
        "     rest",
        "end",
    ]


def test_a_note_stands_below_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = io.StringIO()
    Output(out).table(("id", "key"), [("a", "b"), ("c", "d")], notes=["send it to ann and ben", ""])
    assert out.getvalue().splitlines() == ["id  key", "a   b", "  send it to ann and", "  ben", "c   d"]


def test_text_for_a_terminal_commands_nothing() -> None:
    assert printable_lines("\nSend\x1b[2J it?\r\n\tNow\x07\n") == "Send [2J it?\n Now"


def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31mfailed" in table(Terminal())[1]
    assert "\x1b" not in "".join(table(io.StringIO()))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "".join(table(Terminal()))


def test_times_are_for_people() -> None:
    assert [span(ms) for ms in (5, 1_500, 90_000, 7_200_000, 200_000_000)] == ["5ms", "1s", "1m", "2h", "2d"]
    assert (since(1_000, 4_000), since(9_000, 4_000), since(0, 4_000)) == ("3s ago", "in 5s", "")
    assert moment(1_700_000_000_123) == "2023-11-14 22:13:20.123Z"
    assert moment(1_700_000_000_123, to_the_second=True) == "2023-11-14 22:13:20Z"
    assert moment(2**53 - 1) == "9007199254740991"  # beyond any calendar
    assert moment(0) == ""
