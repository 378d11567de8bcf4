"""How commands end that cannot do what was asked: one line that says what to do, and a code for scripts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from flowfabric.cli.support.exit_codes import ExitCode, exit_code_of
from flowfabric.cli.support.policy import POLICY_FIELDS, iterate_fields
from flowfabric.model.errors import BY_CODE, Conflict, Infrastructure, InvalidInput, NotFound
from flowfabric.model.policy import parse_policy
from flowfabric.model.policy_fields import Fields
from flowfabric.server.settings import load_settings
from flowfabric.storage import open_store
from support.commands import Ff
from support.server import running
from support.terminal import INTERRUPT, on_terminal

ROOT = Path(__file__).parents[2]


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
        (("submit", "x", "--input", "{"), "is not JSON"),
        (("submit", "x", "--input", "{}", "a=1"), "give --input or NAME=VALUE, not both"),
        (("submit", "x", "a"), "write NAME=VALUE"),
        (("submit", "x", "--each", "missing"), "missing cannot be read"),
        (("submit", "x", "--each", "missing", "a=1"), "takes its inputs from the file"),
        (("submit", "x", "--wiat"), "unrecognized arguments: --wiat; did you mean --wait?"),
        (("submit", "x", "--dealy", "5s"), "unrecognized arguments: --dealy 5s; did you mean --delay?"),
        (("submit", "x", "--dealy=5s"), "unrecognized arguments: --dealy=5s; did you mean --delay?"),
        (("server", "--listne", "x:1"), "unrecognized arguments: --listne x:1; did you mean --listen?"),
        (("admin", "repair", "--sotre", "a"), "unrecognized arguments: --sotre a; did you mean --store?"),
        (("ps", "--zzz"), "unrecognized arguments: --zzz\n"),
        (("--store", "a.db", "ps", "--json"), "come after the command: write `ff ps --store a.db --json`"),
        (("--store", "ps", "lanes"), "options come after the command: write `ff lanes --store ps`"),
        (("--json", "ps"), "options come after the command: write `ff ps --json`"),
        (("--store", "http://:secret@h:1"), "write `ff COMMAND --store 'http://***@h:1'`"),
        (("lanes", "a"), "ff lanes: error: unrecognized arguments: a"),
        (("submit", "x", "--raw"), "describes --input"),
        (("submit", "x", "--delay", "soon"), "is no duration"),
        (("submit", "x", "--delay", "5"), "delay: '5' has no unit: write 5s, or 5ms, 5m, 5h, 5d"),
        (("submit", "x", "--wait", "--timeout", "0.5"), "timeout: '0.5' has no unit: write 0.5s"),
        (("worker", "nowhere", "--grace", "5"), "there is no module nowhere"),
        (("ps", "--store", "redis://127.0.0.1"), "no store opens redis://; there is sqlite://, valkey://"),
        (("ps", "--store", "redis://127.0.0.1"), "http://, https://, or a plain path"),
        (("submit", "x", "--input", "@missing"), "cannot be read"),
        (("submit", "x", "--priority", "99999"), "priority: must be an integer from 0 to 9000"),
        (("submit", "x", "--priority", "-1"), "priority: must be an integer from 0 to 9000"),
        (
            ("submit", "x", "--policy", '{"priority": 9001}'),
            "policy.priority: must be an integer from 0 to 9000",
        ),
        (
            ("submit", "x", "--policy", '{"retry_polcy": {}, "max_retries": 3}'),
            "no retry_polcy (did you mean retry_policy?); no max_retries (did you mean retry_policy.max_retries?)",
        ),
        (
            ("submit", "x", "--policy", '{"retry_policy": {"backoff": {"delay": 3, "type": "fixed"}}}'),
            "there is no retry_policy.backoff.delay (did you mean retry_policy.backoff.delay_ms?)",
        ),
        (
            ("submit", "x", "--policy", '{"fallback_policy": {"tiers": [{"model": "m"}, {"zzz": 1}]}}'),
            "there is no fallback_policy.tiers[1].zzz (there is provider, model, timeout_ms)",
        ),
        (("submit", "x", "--policy", '{"retry_policy": 3}'), "retry_policy must be an object"),
        (("submit", "x", "--policy", "[]"), "the policy must be a JSON object"),
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


async def test_settings_are_named_as_they_were_given(tmp_path: Path) -> None:
    ff = Ff(str(tmp_path / "work.db"))
    ended = await ff("server", "--listen", "9097")
    wanted = "invalid value for --listen: expected host:port, got '9097'; write 127.0.0.1:9097"
    assert (ended.code, wanted in ended.err) == (1, True), ended
    process = await ff.start("dev", "shop:app", "--listen", "9097")
    said = (await process.communicate())[1].decode()
    assert (process.returncode, said) == (2, f"ff: {wanted}\n")
    assert "invalid value for --processes" in (await ff("server", "--processes", "x")).err
    ff.environ["FF_LISTEN_ADDR"] = "9097"
    assert "invalid value for FF_LISTEN_ADDR: expected host:port" in (await ff("server")).err


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(text="<html>", content_type="text/html"),
        web.Response(text="<html>", status=404),
        web.Response(text="<html>", status=500),
        web.Response(status=302, headers={"Location": "/login"}),
        web.json_response({"hello": "world"}),
        web.json_response([1]),
    ],
    ids=["page", "missing", "broken", "redirect", "object", "list"],
)
async def test_another_web_server_is_recognised(answer: web.Response) -> None:
    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(body=answer.body, status=answer.status, headers=answer.headers)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ended = await Ff(url)("ps")
    finally:
        await runner.cleanup()
    text = "something answers there, but it is no FlowFabric server; check host and port of the URL"
    assert (ended.code, ended.out, ended.err) == (4, "", f"ff: {text}\n")


async def test_a_wait_that_is_over_ends_with_five(tmp_path: Path) -> None:
    ended = await Ff(str(tmp_path / "work.db"))("submit", "x", "--wait", "--timeout", "10ms")
    assert (ended.code, ended.out) == (5, "")
    first, _, said = ended.err.splitlines()
    assert "no live workers on lane default" in said
    short = first.partition("}:")[2][:13]
    assert said.endswith(
        f"; the run goes on; see it with `ff inspect {short}`, follow it with `ff tail --follow {short}`, "
        f"end it with `ff cancel {short}`"
    )


async def test_whoever_stops_waiting_is_told_that_the_run_goes_on(tmp_path: Path) -> None:
    store = str(tmp_path / "work.db")
    command = [sys.executable, "-m", "flowfabric.cli", "submit", "x", "--wait", "--store", store]
    async with on_terminal(*command, folder=tmp_path, environ=Ff(store).environ) as (process, terminal):
        (uuid,) = (await terminal.until(r"\{fp:\d+\}:([0-9a-f-]{36})\n")).groups()  # before anything else
        await terminal.until("still waiting for the result")
        terminal.type(INTERRUPT)
        (line,) = (await terminal.until("the run goes on; see it with `(ff inspect [^`]*)`")).groups()
        await terminal.end()
        assert await process.wait() == 130
    assert "Traceback" not in terminal.shown
    words = shlex.split(line)
    assert words == ["ff", "inspect", uuid[:13], "--store", store]
    assert (await Ff("")(*words[1:])).code == 0


def test_the_form_of_policies_is_what_the_engine_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a policy that has every object, and note what is asked for."""
    asked: set[str] = set()
    monkeypatch.setattr(Fields, "_of", noting(asked, Fields._of))
    known = {f"{path}{name}" for path, name in iterate_fields(POLICY_FIELDS, "")}
    parse_policy(
        '{"retry_policy": {"backoff": {"type": "fixed"}}, "fallback_policy": {"tiers": [{}]}, "priority": 1}'
    )
    # Capabilities are read by a check of their own.
    assert {each.replace("[0]", "") for each in asked} == known - {
        "routing_requirements.required_capabilities"
    }
    page = (ROOT / "docs" / "guides" / "retries-and-timeouts.md").read_text("utf-8")
    for name in {each.rpartition(".")[2] for each in known}:
        assert f"`{name}`" in page or f'"{name}"' in page, name


def noting(asked: set[str], original: Callable[..., Any]) -> Callable[..., Any]:
    def of(fields: Fields, name: str, *rest: Any) -> Any:
        asked.add(f"{fields._path}{name}")
        return original(fields, name, *rest)

    return of


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
        code = exit_code_of(kind())
        assert code in set(ExitCode)
        for family, wanted in families.items():
            if issubclass(kind, family):
                assert code == wanted, kind
