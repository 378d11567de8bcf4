"""How commands end that cannot do what was asked: one line that says what to do, and a code for scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric.cli.exits import Exit, code_of
from flowfabric.model.errors import BY_CODE, Conflict, Infrastructure, InvalidInput, NotFound
from flowfabric.server.settings import load_settings
from flowfabric.storage import open_store
from support.commands import Ff
from support.server import running


@pytest.mark.parametrize(
    ("store", "text"),
    [
        (
            "none.db",
            "ff: there is no store at none.db; name one with --store or FF_STORE, or submit something\n",
        ),
        (
            "http://127.0.0.1:1",
            "ff: no server answers at http://127.0.0.1:1; is `ff server` running there?\n",
        ),
        ("valkey://127.0.0.1:1/0", "cannot be reached"),
    ],
)
async def test_a_store_that_is_not_there_ends_with_four(
    store: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = await Ff(store)("ps")
    assert (ended.code, ended.out, text in ended.err, ended.err.count("\n")) == (4, "", True, 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("submit", "x", "--input", "{"), "is no JSON"),
        (("submit", "x", "--input", "{}", "a=1"), "give --input or NAME=VALUE, not both"),
        (("submit", "x", "a"), "write NAME=VALUE"),
        (("submit", "x", "--each", "missing"), "missing cannot be read"),
        (("submit", "x", "--each", "missing", "a=1"), "takes its inputs from the file"),
        (("submit", "x", "--wiat"), "unrecognized arguments: --wiat"),
        (("lanes", "a"), "ff lanes: error: unrecognized arguments: a"),
        (("submit", "x", "--raw"), "says how --input is meant"),
        (("submit", "x", "--delay", "soon"), "is no duration"),
        (("submit", "x", "--input", "@missing"), "cannot be read"),
        (("ps", "--tag", "team"), "write KEY=VALUE"),
        (("ps", "--state", "asleep"), "invalid choice: 'asleep' (choose from 'waiting', 'delayed'"),
        (("ps", "--limit", "0"), "limit"),
        (("pause",), "name an execution, or a lane"),
        (("nonsense",), "invalid choice"),
    ],
)
async def test_wrong_arguments_end_with_two(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    ff = Ff(str(tmp_path / "work.db"))
    await ff("migrate")
    ended = await ff(*arguments)
    assert (ended.code, ended.out, text in ended.err) == (2, "", True), ended


async def test_a_wait_that_is_over_ends_with_five(tmp_path: Path) -> None:
    ended = await Ff(str(tmp_path / "work.db"))("submit", "x", "--wait", "--timeout", "10ms")
    assert (ended.code, ended.out) == (5, "")
    assert "no live workers on lane default" in ended.err


async def test_a_server_wants_its_token(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path / "work.db"))
    settings = load_settings({"FF_STORE": ":memory:", "FF_API_TOKEN": "s3cret"}, environ={})
    async with running(store, settings=settings, token="s3cret") as api:
        ff = Ff(api.base)
        ended = await ff("ps")
        assert (ended.code, "set FF_API_TOKEN" in ended.err) == (1, True), ended
        ff.environ["FF_API_TOKEN"] = "s3cret"
        assert await ff.json("ps") == []
        url = api.base.replace("http://", "http://:s3cret@")
        assert await Ff(url).json("lanes") == await ff.json("lanes")
    await store.close()


async def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    ff = Ff(str(tmp_path / "work.db"))
    await ff("submit", "x")
    process = await ff.start("ps")
    assert process.stdout is not None
    process.stdout._transport.close()  # type: ignore[attr-defined] # as `head` does
    assert await process.wait() == 0
    assert process.stderr is not None
    assert await process.stderr.read() == b""


def test_every_refusal_has_a_code() -> None:
    families = {NotFound: 3, InvalidInput: 2, Infrastructure: 4, Conflict: 1}
    for kind in BY_CODE.values():
        code = code_of(kind())
        assert code in set(Exit)
        for family, wanted in families.items():
            if issubclass(kind, family):
                assert code == wanted, kind
