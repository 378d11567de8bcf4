"""Parsing the conditions of a suspension."""

from typing import Any

import msgspec
import pytest

from flowfabric.model.condition_json import parse_condition
from flowfabric.model.conditions import (
    MAX_COUNT,
    OPERATOR_ONLY,
    Condition,
    Node,
    operator_only,
    single,
    timeout_only,
)
from support.conditions import all_of, count_node, refusal, single_node

FOUR_DOWN = "members[0].members[0].members[0].members[0]"


class TestParsing:
    def test_roots_that_become_lists(self) -> None:
        assert parse_condition(single_node("k", "a")) == single("k", "a")
        assert parse_condition({"kind": "Single", "waitpoint_key": "k"}) == single("k")
        assert parse_condition({"kind": "OperatorOnly"}) == operator_only()
        assert parse_condition({"kind": "NeverBySignal", "path": ""}) == operator_only()
        assert parse_condition({"kind": "TimeoutOnly"}) == timeout_only()

    def test_tree(self) -> None:
        tree = all_of(
            single_node("k0", "a") | {"path": "nonsense"},
            all_of({"kind": "OperatorOnly"}, count_node(2, "DistinctSources", ("k1", "k2", "k1"), "b")),
            {"kind": "TimeoutOnly"},
        )
        root = Node(
            "AllOf",
            members=(
                Node("Single", "members[0]", ("k0",), "a", 1),
                Node(
                    "AllOf",
                    "members[1]",
                    members=(
                        Node("NeverBySignal", "members[1].members[0]"),
                        Node("Count", "members[1].members[1]", ("k1", "k2"), "b", 2, "DistinctSources"),
                    ),
                ),
                Node("NeverBySignal", "members[2]"),
            ),
        )
        condition = parse_condition(tree)
        assert condition == Condition(form="tree", tree=(root,))
        assert parse_condition({"v": 1, "composite": True, "tree": tree}) == condition
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(condition), type=Condition) == condition

    def test_operator_override(self) -> None:
        tree = count_node(1)
        assert parse_condition(tree).operator_override
        assert not parse_condition(tree | {"allow_operator_override": False}).operator_override
        assert not parse_condition({"tree": tree, "allow_operator_override": False}).operator_override
        assert not parse_condition({"tree": tree | {"allow_operator_override": False}}).operator_override
        assert not parse_condition(single_node() | {"allow_operator_override": False}).operator_override
        assert not parse_condition(
            {"kind": "TimeoutOnly", "allow_operator_override": False}
        ).operator_override
        assert "true or false" in refusal(tree | {"allow_operator_override": 0})
        assert "only an operator" in refusal({"kind": "OperatorOnly", "allow_operator_override": False})
        assert "unknown fields" in refusal(all_of(tree | {"allow_operator_override": True}))

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (all_of(), "allof_empty_members at path "),
            (all_of(single_node(), all_of()), "allof_empty_members at path members[1]"),
            (count_node(0), "count_n_zero at path "),
            (count_node(1, keys=()), "count_waitpoints_empty at path "),
            (all_of(all_of(count_node(0))), "count_n_zero at path members[0].members[0]"),
            (single_node("k", ""), "resume_condition: empty signal name at path "),
            (all_of(single_node("k", "")), "resume_condition: empty signal name at path members[0]"),
            (all_of(all_of(all_of(all_of(all_of())))), f"depth 5 exceeds cap 4 at path {FOUR_DOWN}"),
            (all_of(all_of(all_of(all_of(count_node(1))))), f"depth 5 exceeds cap 4 at path {FOUR_DOWN}"),
        ],
    )
    def test_shapes(self, value: Any, text: str) -> None:
        assert refusal(value) == text

    def test_count_above_its_waitpoints(self) -> None:
        text = refusal(count_node(2, "DistinctWaitpoints", ("k", "k")))
        assert text.startswith("count_exceeds_waitpoint_set: ")
        assert parse_condition(count_node(2, "DistinctWaitpoints", ("k", "l"))).form == "tree"
        assert parse_condition(count_node(2, "DistinctSignals", ("k",))).form == "tree"

    def test_depth_four_is_allowed(self) -> None:
        assert parse_condition(all_of(all_of(all_of(all_of(single_node()))))).form == "tree"
        assert parse_condition(all_of(all_of(all_of(count_node(1))))).form == "tree"

    @pytest.mark.parametrize(
        "value",
        [
            None,
            [],
            "Single",
            {},
            {"kind": "AnyOf"},
            {"kind": ["Single"]},
            {"kind": "Composite"},
            {"kind": "Single"},
            single_node(""),
            {"kind": "Single", "waitpoint_key": 7},
            single_node("x" * 257),
            single_node("k", "x" * 257),
            single_node("k", OPERATOR_ONLY),
            single_node("k") | {"match": "a"},
            single_node("k") | {"matcher": "a"},
            single_node("k") | {"matcher": {"kind": "ByName"}},
            single_node("k") | {"matcher": {"kind": ["x"]}},
            single_node("k") | {"matcher": {"kind": "ByName", "name": "a", "x": 1}},
            {"kind": "AllOf", "members": {}},
            all_of(None),
            all_of(7),
            all_of(*[single_node()] * 256),
            count_node(-1),
            count_node(MAX_COUNT + 1),
            count_node(True),
            count_node(1, "Distinct"),
            count_node(1) | {"n": 1.5},
            count_node(1) | {"n": None},
            count_node(1) | {"waitpoints": "k"},
            count_node(1) | {"waitpoints": ["k", ""]},
            count_node(1) | {"count_kind": []},
            count_node(1, keys=tuple(map(str, range(257)))),
            {"kind": "OperatorOnly", "x": 1},
            {"v": 2, "composite": True, "tree": count_node(1)},
            {"v": 1, "composite": False, "tree": count_node(1)},
            {"tree": count_node(1), "x": 1},
            {"tree": None},
        ],
    )
    def test_refused(self, value: Any) -> None:
        refusal(value)

    def test_hostile_depth(self) -> None:
        value = single_node()
        for _ in range(5_000):
            value = all_of(value)
        assert refusal(value).startswith("depth 5 exceeds cap 4")
