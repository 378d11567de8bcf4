"""Commands that ask a store, on every kind of store: a file, Valkey, and a server over HTTP."""

from __future__ import annotations

import json
import re
import signal
import sys
from typing import Any

from flowfabric.model.ids import spread
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.lease import Release
from flowfabric.worker import Context
from support.commands import Ff
from support.driver import new_uuid
from support.terminal import INTERRUPT, on_terminal
from support.working import Place


async def greet(name: str, times: int = 1) -> str:
    return f"hello, {name}" * times


async def refuse(text: str = "") -> None:
    raise ValueError(text or "no")


async def publish(ctx: Context, page: str) -> str:
    await ctx.step("draft", page.upper)
    await ctx.emit("log", f"{page} is drafted")
    answer = await ctx.wait_for_signal("approve", "reject", timeout="1h")
    return f"{answer.name} by {answer.source}"


async def echo(data: bytes) -> bytes:
    return data[::-1]


def short(whole: str) -> str:
    return whole.rpartition(":")[2][:13]


async def test_work_is_submitted_waited_for_and_looked_at(place: Place, ff: Ff) -> None:
    async with place.runtime(greet):
        ended = await ff(
            "submit", "greet", "name=Ada", "--tag", "team=a", "times=2", "--wait", "--timeout", "30s"
        )
        assert (ended.code, ended.out) == (0, '"hello, Adahello, Ada"\n')
    (run,) = await ff.json("ps")
    assert ended.err.splitlines()[0] == run["execution_id"]
    assert (run["execution_kind"], run["public_state"], run["tags"]) == ("greet", "completed", {"team": "a"})
    seen = await ff.json("inspect", short(run["execution_id"]))
    assert (seen["input"], seen["result"]) == ({"name": "Ada", "times": 2}, "hello, Adahello, Ada")
    assert [each["attempt_state"] for each in seen["attempts"]] == ["ended_success"]
    events = [line["event"] for line in await ff.json("history", run["execution_id"])]
    assert (events[:2], events[-1]) == (["created", "claimed"], "completed")
    told = await ff.json("explain", short(run["execution_id"]))
    assert told["because"] == [{"reason": "ended", "detail": "it has ended: completed", "data": {}}]
    page = (await ff("inspect", short(run["execution_id"]))).out
    assert "hello, AdaHello" not in page
    assert [line.split()[:2] for line in page.splitlines()[:3]] == [
        ["id", run["execution_id"]],
        ["kind", "greet"],
        ["state", "completed"],
    ]
    raw = (await ff("inspect", short(run["execution_id"]), "--raw")).json
    assert raw["described"]["run"]["attempt"]["life"] == "ended_success"


async def test_what_fails_ends_with_one_and_says_why(place: Place, ff: Ff) -> None:
    async with place.runtime(refuse):
        ended = await ff("submit", "refuse", "--wait", "--input", '{"text": "out of paper"}')
    assert (ended.code, ended.out) == (1, "")
    assert re.match(r"(\{fp:\d+\}:\S+)\nnote: .*\nff: \1 ", ended.err)
    assert "failed: ValueError: out of paper" in ended.err
    assert "failed" in (await ff("ps", "--state", "failed")).out
    assert await ff.json("ps", "--state", "completed") == []


async def test_inspecting_a_failure_shows_the_tracebacks_of_its_attempts(place: Place, ff: Ff) -> None:
    policy = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}
    async with place.runtime(refuse):
        execution_id = await place.submit("refuse", {"text": "out of \x1b[31mpaper"}, policy=policy)
        await place.ended(execution_id)
    page = (await ff("inspect", execution_id)).out
    shown = page.partition("\ntraceback of attempt 0 to 1\n")[2].splitlines()
    assert shown[0] == "  Traceback (most recent call last):", page
    assert "in refuse" in shown[1]
    assert shown[-1] == "  ValueError: out of  [31mpaper"  # nothing that a terminal would obey
    attempts = (await ff.json("inspect", execution_id))["attempts"]
    assert ["in refuse" in each["failure_detail"] for each in attempts] == [True, True]


async def test_input_comes_from_files_and_pipes(place: Place, ff: Ff, tmp_path: Any) -> None:
    path = tmp_path / "input.json"
    path.write_text('{"name": "Ben"}', "utf-8")
    async with place.runtime(greet, echo):
        assert (await ff("submit", "greet", "--input", f"@{path}", "--wait")).out == '"hello, Ben"\n'
        assert (
            await ff("submit", "greet", "--input", "-", "--wait", stdin=b'{"name": "Cy"}')
        ).out == '"hello, Cy"\n'
        ended = await ff("submit", "echo", "--raw", "--input", "-", "--wait", stdin=b"\xff\x00")
        assert ended.json == "AP8="


async def test_many_are_submitted_one_for_each_line(place: Place, ff: Ff, tmp_path: Any) -> None:
    path = tmp_path / "inputs.jsonl"
    path.write_text("\n".join(f'{{"name": "{number}"}}' for number in range(450)) + "\n\n", "utf-8")
    ended = await ff("submit", "greet", "--each", str(path), "--key", "batch", "--tag", "of=batch")
    ids = ended.out.split()
    assert (ended.code, len(ids), len(set(ids))) == (0, 450, 450)
    assert ended.err.count("\n") == 1  # that no worker has published it
    again = await ff("submit", "greet", "--each", "-", "--key", "batch", "--json", stdin=path.read_bytes())
    assert [each["execution_id"] for each in again.lines] == ids
    assert {each["duplicate"] for each in again.lines} == {True}
    assert (await ff.json("inspect", ids[449]))["input"] == {"name": "449"}
    (lane,) = await ff.json("lanes")
    assert lane["counts"]["waiting"] == 450


async def test_a_bad_line_submits_nothing(place: Place, ff: Ff) -> None:
    ended = await ff("submit", "greet", "--each", "-", stdin=b'{"name": "a"}\nname=b\n')
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("ff: each: line 2 is not JSON")
    assert await ff.json("ps") == []


async def test_a_key_finds_what_was_submitted_before(place: Place, ff: Ff) -> None:
    first = await ff.json("submit", "greet", "name=a", "--key", "k", "--delay", "1h", "--priority", "5")
    again = await ff.json("submit", "greet", "name=a", "--key", "k")
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again["execution_id"] == first["execution_id"]
    run = await place.run(first["execution_id"])
    assert (run.public_state, run.priority) == ("delayed", 5)
    assert 3_500_000 < run.delay_until - run.created_at <= 3_600_000
    # Its place follows from the key, so its UUID alone has to be looked for.
    assert (await ff.json("explain", first["execution_id"].partition("}:")[2]))["state"] == "delayed"


async def test_an_approval_from_the_outside_in(place: Place, ff: Ff) -> None:
    async with place.runtime(publish):
        one = (await ff("submit", "publish", "page=news")).out.strip()
        two = (await ff("submit", "publish", "page=jobs")).out.strip()
        await place.state(one, "suspended")
        await place.state(two, "suspended")
        waiting = await ff.json("waitpoints")
        assert {each["execution_id"] for each in waiting} == {one, two}
        assert "approve" in (await ff("waitpoints")).out  # as much of it as the terminal is wide
        (mine,) = (each for each in waiting if each["execution_id"] == two)
        told = await ff.json("approve", short(one), "--as", "carol")
        assert told == {"execution_id": one, "signal_name": "approve", "accepted": True}
        assert (await ff("approve", short(mine["waitpoint_id"]), "--reject", "--as", "dan")).code == 0
        assert await place.result(one) == "approve by carol"
        assert await place.result(two) == "reject by dan"
    ended = await ff("approve", short(one))
    assert (ended.code, ended.err) == (1, "ff: the run has ended: completed\n")


async def test_a_signal_with_a_token_is_an_outsiders(place: Place, ff: Ff) -> None:
    async with place.runtime(publish):
        execution_id = (await ff("submit", "publish", "page=news")).out.strip()
        await place.state(execution_id, "suspended")
        ended = await ff("signal", short(execution_id), "approve", "--token", "k1:00")
        assert (ended.code, ended.out) == (1, "")
        assert (await ff("signal", short(execution_id), "later")).code == 1
        assert (
            await ff("signal", short(execution_id), "approve", "--payload", '{"a": 1}', "--as", "eve")
        ).code == 0
        assert await place.result(execution_id) == "approve by eve"


async def test_a_tail_tells_every_attempt(place: Place, ff: Ff) -> None:
    async with place.runtime(publish):
        execution_id = (await ff("submit", "publish", "page=news")).out.strip()
        await place.state(execution_id, "suspended")
        now = (await ff("tail", short(execution_id), "--json")).lines
        assert [each.get("payload") for each in now] == [None, "news is drafted"]
        following = await ff.start("tail", short(execution_id), "--follow", "--json")
        assert following.stdout is not None
        assert json.loads(await following.stdout.readline())["started"] == "initial"
        frame = json.loads(await following.stdout.readline())
        assert frame["payload"] == "news is drafted"
        await ff("approve", short(execution_id))
        rest = (await following.communicate())[0].decode()
        assert following.returncode == 0, rest
    after = (await ff("tail", execution_id, "--json", "--after", frame["position"])).lines
    assert frame not in after
    assert "news is drafted" in (await ff("tail", execution_id)).out


async def test_a_tail_says_which_frames_are_superseded(place: Place, ff: Ff) -> None:
    async def talk(ctx: Context) -> None:
        async def write() -> None:
            await ctx.emit("token", "draft")

        await ctx.emit("token", "intro")
        await ctx.step("write", write)
        await ctx.sleep("10ms")

    async with place.runtime(talk):
        execution_id = (await ff("submit", "talk")).out.strip()
        await place.ended(execution_id)
    for options in ((), ("--follow",)):
        _, intro, draft, told, again = (await ff("tail", execution_id, "--json", *options)).lines
        assert [each["payload"] for each in (intro, draft, again)] == ["intro", "draft", "intro"]
        assert [each["lease_epoch"] for each in (intro, draft, again)] == [1, 1, 2]
        assert (intro.get("step"), draft.get("step")) == (None, "write")
        first, last = (each["position"].partition(".")[2] for each in (intro, draft))
        assert told["superseded"] == {
            "lease_epoch": 1,
            "from": first,
            "to": last,
            "by_epoch": 2,
            "kept_steps": ["write"],
        }
        assert (await ff("tail", execution_id, "--json", "--after", told["position"])).lines == [again]
    lines = (await ff("tail", execution_id)).out.splitlines()
    since = lines[1].split()[0]
    wanted = f"the handler runs again: the frames since {since} are superseded, except in stored steps: write"
    assert lines[3] == f"── {wanted}"
    ff.environ["COLUMNS"] = "80"
    narrow = (await ff("tail", execution_id)).out.splitlines()
    assert max(map(len, narrow)) <= 80
    assert " ".join(line.strip(" ─") for line in narrow[3:-1]) == wanted


async def test_what_a_person_is_asked_is_shown_before_the_answer(place: Place, ff: Ff) -> None:
    async def send(ctx: Context) -> None:
        await ctx.wait_for_signal(
            "approve",
            "reject",
            message="Send to ann? " + "It costs money. " * 8,
            details={"to": "ann", "sum": [1, 2], "text": "\x1b]0;owned\x07hello"},
        )

    ff.environ["COLUMNS"] = "80"
    async with place.runtime(send):
        execution_id = (await ff("submit", "send")).out.strip()
        await place.state(execution_id, "suspended")
        pages = [
            (await ff(*words)).out
            for words in (
                ("waitpoints",),
                ("explain", execution_id),
                ("inspect", execution_id),
            )
        ]
        (shown,) = await ff.json("waitpoints")
    for page in pages:
        assert "Send to ann? It costs" in page
        assert "\x1b" not in page
        assert max(map(len, page.splitlines())) <= 80
    assert "  to: ann\n" in pages[2]
    assert "  sum: [1,2]\n" in pages[2]
    assert "  text:  ]0;owned hello\n" in pages[2]
    assert f"answer it with `ff approve {short(execution_id)} --as you`" in pages[1]
    assert shown["message"].startswith("Send to ann?")
    assert shown["details"]["to"] == "ann"


async def test_operators_pause_cancel_and_replay(place: Place, ff: Ff) -> None:
    execution_id = (await ff("submit", "greet", "name=x")).out.strip()
    assert (await ff("pause", short(execution_id))).code == 0
    assert (await place.run(execution_id)).blocking_reason == "paused_by_operator"
    assert (await ff("unpause", short(execution_id))).code == 0
    assert (await ff("pause", "--lane", "default", "--reason", "moving house")).code == 0
    (lane,) = await ff.json("lanes")
    assert (lane["lane_id"], lane["counts"]["waiting"], lane["pause_reason"]) == (
        "default",
        1,
        "moving house",
    )
    assert "moving house" in (await ff("lanes")).out
    assert "paused" in (await ff("explain", short(execution_id))).out
    assert (await ff("unpause", "--lane", "default")).code == 0
    ended = await ff.json("cancel", short(execution_id), "--reason", "a mistake")
    assert ended["public_state"] == "cancelled"
    assert (await place.run(execution_id)).cancellation_reason == "a mistake"
    again = await ff("cancel", short(execution_id))
    assert (again.code, again.err) == (1, f"ff: there is nothing to cancel: {execution_id} is cancelled\n")
    for verb, rule in (
        ("pause", "only what does not run yet can be paused"),
        ("unpause", "it is not paused"),
    ):
        refused = await ff(verb, short(execution_id))
        assert (refused.code, refused.err) == (1, f"ff: {rule}: {execution_id} is cancelled\n")
    assert (await ff.json("replay", short(execution_id)))["public_state"] == "waiting"
    refused = await ff("replay", short(execution_id))
    assert refused.err == f"ff: only what has ended can be replayed: {execution_id} is waiting\n"
    async with place.runtime(greet):
        assert await place.result(execution_id) == "hello, x"
    both = await ff("replay", short(execution_id), "--keep-steps", "--from-step", "a")
    assert (both.code, both.err) == (2, "ff: from_step: give keep_steps or from_step, not both\n")


async def test_workers_are_listed_while_they_live(place: Place, ff: Ff) -> None:
    async with place.runtime(greet, worker_id="painter", lanes=("default", "fast")):
        await place.result(await place.submit("greet", {"name": "x"}))
        (worker,) = await ff.json("workers")
        assert (worker["worker_id"], worker["lanes"]) == ("painter", ["default", "fast"])
        assert worker["kinds"] == ["greet"]
        shown = (await ff("workers")).out
        assert "painter" in shown
        assert "greet" in shown


async def test_a_kind_that_nobody_takes_is_told_with_the_nearest_name(place: Place, ff: Ff) -> None:
    async with place.runtime(greet, publish):
        await place.result(await place.submit("greet", {"name": "x"}))
        execution_id = await place.submit("great", {"name": "x"})
        for command in (("explain", execution_id), ("ps", "--kind", "great"), ("doctor",)):
            shown = " ".join((await ff(*command)).out.split())
            assert "no live worker takes great" in shown, command
            assert "they take greet, publish; is greet meant?" in shown, command
        (because,) = (await ff.json("explain", execution_id))["because"]
        assert (because["reason"], because["data"]["nearest"]) == ("no_worker_for_kind", "greet")


async def test_work_that_was_given_back_waits_for_a_worker(place: Place, ff: Ff) -> None:
    execution_id = await place.submit("greet", {"name": "x"})
    workers = [f"vm-{number}-{number:032x}" for number in (1, 2)]
    for instance in workers:
        claim = Claim(worker_id="vm", worker_instance_id=instance, lanes=("default",), mint=new_uuid())
        (task,) = (await place.store.apply(claim)).tasks
        assert f"on vm (…{instance[-6:]})" in (await ff("ps")).out  # two of one host are told apart
        await place.store.apply(Release(execution_id=execution_id, fence=task.fence))
        shown = (await ff("ps")).out
        assert "waits for a worker: " in shown
        assert "active without a worker: 1; the lease is gone, and it waits for a worker" in shown
        ff.environ["COLUMNS"] = "160"
        assert "waits for a worker: its lease was given back" in (await ff("ps")).out
        assert "on vm" not in shown
        assert "none, its lease is gone" in (await ff("inspect", execution_id)).out


async def test_a_live_list_goes_on(place: Place, ff: Ff) -> None:
    process = await ff.start("ps", "--live", "--json")
    assert process.stdout is not None
    assert json.loads(await process.stdout.readline()) == []
    execution_id = await place.submit("greet", {"name": "x"})
    while not (runs := json.loads(await process.stdout.readline())):
        pass
    assert [run["execution_id"] for run in runs] == [execution_id]
    process.send_signal(signal.SIGINT)
    _, said = await process.communicate()
    assert (process.returncode, said) == (130, b"")


async def test_a_live_list_is_drawn_over_the_one_before(place: Place, ff: Ff) -> None:
    for number in range(60):
        await place.submit(f"kind{number}", {})
    command = [sys.executable, "-m", "flowfabric.cli", "ps", "--live", "--limit", "200"]
    async with on_terminal(*command, folder=".", environ=ff.environ) as (process, terminal):
        await terminal.until("kind59")
        await terminal.until("kind13")
        await place.submit("last", {})
        await terminal.until("last")
        terminal.type(INTERRUPT)
        await terminal.end()
        assert await process.wait() == 130
    assert "kind12" not in terminal.shown  # it is as high as the terminal, and does not scroll
    assert "Traceback" not in terminal.shown


async def test_ids_may_be_short_when_one_is_meant(place: Place, ff: Ff) -> None:
    execution_id = await place.submit("greet", {"name": "x"})
    uuid = execution_id.partition("}:")[2]
    for text in (execution_id, uuid, uuid[:8], uuid[:4], uuid[:9], uuid[:13].replace("-", ""), uuid.upper()):
        assert (await ff.json("explain", text))["execution_id"] == execution_id, text
    keyed = (await ff("submit", "greet", "name=x", "--key", "k")).out.strip()  # the key decides its partition
    assert (await ff.json("explain", keyed.partition("}:")[2]))["execution_id"] == keyed
    missing = await ff("explain", "{fp:1}:00000000-0000-4000-8000-000000000000")
    assert (missing.code, missing.out) == (3, "")
    assert missing.err.endswith("`ff ps` lists executions\n")
    missing = await ff("explain", "00000000-0000-4000-8000-000000000000")
    assert (missing.code, missing.err.endswith("`ff ps` lists executions\n")) == (3, True)
    made = []
    for last in "12":
        uuid = f"aaaaaaaa-0000-4000-8000-00000000000{last}"
        made.append(spread(uuid, place.store.partitions))
        await place.store.apply(CreateExecution(execution_id=made[-1], execution_kind="x"))
    several = await ff("explain", "aaaaaaaa")
    assert several.code == 2
    assert f"aaaaaaaa is short for several executions: {', '.join(made)}; give more of it" in several.err
    for text in ("abc", "not-an-id", "aaaaaaaa-0000-4000-8000-0000000000012"):
        ended = await ff("explain", text)
        assert (ended.code, "is no id of an execution; give all of it" in ended.err) == (2, True)


async def test_lists_are_cut_to_the_terminal(place: Place, ff: Ff) -> None:
    execution_id = await place.submit("a-kind-with-quite-a-long-name-that-does-not-fit", {"name": "x"})
    ff.environ["COLUMNS"] = "60"
    lines = (await ff("ps")).out.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[0].split() == ["id", "kind", "state", "lane", "age", "note"]
    assert "…" in lines[1]
    assert lines[1].split()[0] == short(execution_id)


async def test_history_fits_the_terminal(place: Place, ff: Ff) -> None:
    async with place.runtime(publish):
        execution_id = await place.submit("publish", {"page": "news"})
        await ff("approve", execution_id, "--as", "carol", "--within", "30s")
        await place.result(execution_id)
    ff.environ["COLUMNS"] = "80"
    title, head, *lines = (await ff("history", execution_id)).out.splitlines()
    assert re.fullmatch(re.escape(execution_id) + r", \d{4}-\d\d-\d\d \(UTC\)", title)
    assert head.split() == ["at", "event", "by", "what", "state", "attempt"]
    assert max(map(len, lines)) <= 80
    (signal,) = (line for line in lines if line.split()[1] == "signal")
    assert signal.split()[1:4] == ["signal", "carol", "approve;"]
    (step,) = (line for line in lines if line.split()[1] == "step" and "draft" in line)
    assert re.match(r"\d\d:\d\d:\d\d\.\d{3}Z  step +\S+ +draft ", step)
    assert lines[0].split()[1] == "created"
    ff.environ["COLUMNS"] = "200"
    wide = (await ff("history", execution_id)).out
    assert wide.splitlines()[1].endswith("ids")
    assert re.search(r" lease=[0-9a-f]{8}\b", wide)


async def test_an_unknown_lane_is_neither_paused_nor_let_go_on(place: Place, ff: Ff) -> None:
    for lane in ("mail", "mails", "video"):
        await ff("submit", "greet", "--lane", lane)
    for verb in ("pause", "unpause"):
        near = await ff(verb, "--lane", "mial")
        assert (near.code, near.out) == (3, "")
        assert near.err == "ff: no work and no worker is on a lane mial; there is mail, mails, …\n"
        far = await ff(verb, "--lane", "zzz")
        assert far.err == "ff: no work and no worker is on a lane zzz; there is default, mail, mails, video\n"
    assert {lane["lane_id"] for lane in await ff.json("lanes")} <= {"default", "mail", "mails", "video"}
    async with place.runtime(greet):  # what a worker serves is known before it has work
        assert (await ff("pause", "--lane", "default")).code == 0


async def test_explain_tells_why_it_failed_and_how_to_answer(place: Place, ff: Ff) -> None:
    async with place.runtime(refuse, publish):
        failed = await place.submit("refuse", {"text": "out of paper"})
        waiting = await place.submit("publish", {"page": "news"})
        async with place.store.subscribe([f"execution:{waiting}"]) as woken:
            while (await ff.json("explain", waiting))["state"] != "suspended":
                await woken.wait(5)
        await place.ended(failed)
        told = (await ff("explain", failed)).out.splitlines()
        assert told == [f"{failed} is failed", "  it has ended: failed, ValueError: out of paper"]
        told = (await ff("explain", waiting)).out.splitlines()
        line = re.fullmatch("  answer it with `ff (approve .*)`", told[-1])
        assert line is not None, told
        assert (await ff(*line[1].split())).code == 0
        assert await place.result(waiting) == "approve by you"
