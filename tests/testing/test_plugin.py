"""The plugin in suites of its own: what its fixtures give, and that others do not notice it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import valkey
from flowfabric.testing.servers import valkey_server

pytest_plugins = ["pytester"]

APP = """
import pytest
from flowfabric import Context, FlowFabric

app = FlowFabric()

@app.task
async def hello(ctx: Context, name: str) -> str:
    await ctx.sleep("1d")
    return f"hello, {name}"
"""
FIXTURE = """
@pytest.fixture
def flowfabric_app():
    return app
"""
TEST = """
async def test_hello({fixture}):
    async with {fixture}({given}) as lab:
        run = await lab.submit(hello, "world")
        await lab.clock.advance("1d")
        assert await lab.result(run) == "hello, world"
"""


def suite(pytester: pytest.Pytester, text: str, ini: str = "", *arguments: str) -> pytest.RunResult:
    pytester.makeini(f"[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n{ini}")
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-v", "-p", "no:randomly", "-p", "no:xdist", *arguments)


def test_a_lab_of_the_suite_s_app(pytester: pytest.Pytester) -> None:
    ended = suite(pytester, APP + FIXTURE + TEST.format(fixture="flowfabric_lab", given=""))
    ended.assert_outcomes(passed=1)


def test_a_lab_of_a_given_app(pytester: pytest.Pytester) -> None:
    ended = suite(pytester, APP + TEST.format(fixture="flowfabric_lab", given="app"))
    ended.assert_outcomes(passed=1)


def test_without_an_app_it_says_what_to_do(pytester: pytest.Pytester) -> None:
    ended = suite(pytester, APP + TEST.format(fixture="flowfabric_lab", given=""))
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["*define a fixture flowfabric_app*"])


def test_once_on_each_store(pytester: pytest.Pytester) -> None:
    ended = suite(
        pytester,
        APP + FIXTURE + TEST.format(fixture="flowfabric_lab_per_store", given=""),
        "flowfabric_stores = memory sqlite valkey",
    )
    ended.assert_outcomes(passed=3)
    ended.stdout.fnmatch_lines(["*[[]memory[]] PASSED*", "*[[]sqlite[]] PASSED*", "*[[]valkey[]] PASSED*"])


def test_unsaid_it_is_a_file_and_the_valkey_that_is_there(pytester: pytest.Pytester) -> None:
    test = TEST.format(fixture="flowfabric_lab_per_store", given="app")
    ended = suite(pytester, APP + test, "", "--collect-only", "-q")
    ended.stdout.fnmatch_lines(["*test_hello[[]sqlite[]]*", "*test_hello[[]valkey[]]*"])


def test_an_unknown_store_is_refused(pytester: pytest.Pytester) -> None:
    test = TEST.format(fixture="flowfabric_lab_per_store", given="app")
    ended = suite(pytester, APP + test, "flowfabric_stores = postgres")
    ended.stdout.fnmatch_lines(["*flowfabric_stores: postgres? There is memory, sqlite, valkey*"])


def test_a_database_with_something_in_it_is_left_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    with valkey_server() as url, valkey.Valkey.from_url(url) as client:
        monkeypatch.setenv("FLOWFABRIC_TEST_VALKEY", url)
        client.set("precious", "1")
        test = TEST.format(fixture="flowfabric_lab_per_store", given="app")
        ended = suite(pytester, APP + test, "flowfabric_stores = valkey")
        ended.assert_outcomes(errors=1)
        ended.stdout.fnmatch_lines(["*holds 1 keys, which the tests would delete*"])
        assert client.keys() == [b"precious"]
        client.delete("precious")
        suite(pytester, APP + test, "flowfabric_stores = valkey").assert_outcomes(passed=1)
        assert not client.keys()


def test_others_load_nothing_of_it() -> None:
    program = "import sys, pytest_flowfabric; print([name for name in sys.modules if name.startswith('flowfabric')])"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True
    )
    assert ended.stdout == "[]\n"


def test_the_kit_needs_no_server() -> None:
    program = (
        "import sys, flowfabric.testing; "
        "print([name for name in ('starlette', 'uvicorn', 'aiohttp', 'valkey') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True
    )
    assert ended.stdout == "[]\n"
