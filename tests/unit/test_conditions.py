from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.model.condition_json import parse_condition
from flowfabric.model.conditions import (
    MAX_COUNT,
    OPERATOR_ONLY,
    TIMEOUT_ONLY,
    Condition,
    Node,
    friendly_condition,
    is_sentinel,
    list_condition,
    needs_timeout,
    operator_only,
    referenced_keys,
    required_signal_names,
    single,
    timeout_only,
)
from flowfabric.model.errors import InvalidInput
from flowfabric.model.evaluation import Offer, offer, satisfied, satisfiers
from support.conditions import all_of, count_node, single_node

DONE, MORE, NOTHING, REPEAT, DEAF, REFUSED = (
    "resume_condition_satisfied",
    "appended_to_waitpoint",
    "no_op",
    "appended_to_waitpoint_duplicate",
    "signal_ignored_not_in_condition",
    "signal_ignored_matcher_failed",
)


def signal(ref: str, name: str = "go", key: str = "k0", source: str = "") -> Offer:
    return Offer(ref, key, f"id-of-{key}", name, "user", source)


def feed(condition: Condition, *signals: Offer) -> tuple[Condition, list[str]]:
    effects = []
    for each in signals:
        condition, effect = offer(condition, each)
        effects.append(effect)
    return condition, effects


def named(condition: Condition, names: str) -> list[str]:
    return feed(condition, *(signal(f"s{n}", name) for n, name in enumerate(names)))[1]


class TestLists:
    def test_any_takes_the_first_that_fits(self) -> None:
        assert named(list_condition(("a", "b"), "any"), "xb") == [NOTHING, DONE]

    def test_all_needs_every_slot(self) -> None:
        assert named(list_condition(("a", "b", "a"), "all"), "aaxab") == [MORE, MORE, NOTHING, NOTHING, DONE]

    def test_count_needs_so_many_slots(self) -> None:
        assert named(list_condition(("a", "b", "c"), "count", 2), "aac") == [MORE, NOTHING, DONE]

    def test_no_names_take_anything(self) -> None:
        assert list_condition((), "any").names == ("",)
        assert list_condition((), "all").slots == ("",)
        assert named(list_condition((), "count", 3), "xyz") == [MORE, MORE, DONE]

    def test_satisfiers_come_by_slot(self) -> None:
        condition, _ = feed(list_condition(("a", "b"), "all"), signal("s1", "b"), signal("s2", "a"))
        assert satisfied(condition)
        assert satisfiers(condition) == ("s2", "s1")

    def test_a_signal_fills_one_slot_only(self) -> None:
        condition = list_condition(("a", "a"), "all")
        assert feed(condition, signal("s1", "a"), signal("s1", "a"))[1] == [MORE, NOTHING]

    def test_a_satisfied_condition_changes_no_more(self) -> None:
        condition, _ = feed(list_condition(("a", "b"), "any"), signal("s1", "a"))
        assert offer(condition, signal("s2", "b")) == (condition, NOTHING)

    def test_the_default_condition_is_not_satisfied(self) -> None:
        assert not satisfied(Condition())

    def test_single(self) -> None:
        condition = single("k0", "a")
        assert (condition.names, condition.mode, condition.minimum) == (("a",), "any", 1)
        assert offer(condition, signal("s1", "a", "k1"))[1] == NOTHING
        assert named(condition, "ba") == [NOTHING, DONE]
        assert named(single("k0"), "b") == [DONE]

    @pytest.mark.parametrize("condition", [operator_only(), timeout_only()])
    def test_sentinels_are_never_satisfied(self, condition: Condition) -> None:
        assert (condition.form, condition.mode, condition.minimum) == ("list", "all", 1)
        for name in (OPERATOR_ONLY, TIMEOUT_ONLY, "x"):
            assert offer(condition, signal("s1", name)) == (condition, NOTHING)
        assert offer(list_condition((), "any"), signal("s1", OPERATOR_ONLY))[1] == NOTHING

    @pytest.mark.parametrize(
        ("names", "mode", "minimum"),
        [
            (("a",), "some", 1),
            (("a",), "count", 0),
            (("a",), "count", 2),
            ((), "count", 257),
            ((), "count", 10**12),
            (("a",) * 257, "any", 1),
        ],
    )
    def test_refused(self, names: tuple[str, ...], mode: str, minimum: int) -> None:
        with pytest.raises(InvalidInput):
            list_condition(names, mode, minimum)


class TestQuestions:
    def test_is_sentinel(self) -> None:
        assert [is_sentinel(name) for name in ("__operator_only__", "__timeout_only__", "", "x")] == [
            True,
            True,
            False,
            False,
        ]

    def test_needs_timeout(self) -> None:
        assert [needs_timeout(c) for c in (timeout_only(), operator_only(), single("k"))] == [
            True,
            False,
            False,
        ]

    def test_referenced_keys(self) -> None:
        tree = all_of(
            single_node("b"), count_node(1, keys=("c", "a", "b")), all_of(single_node("d")), single_node("a")
        )
        assert referenced_keys(parse_condition(tree)) == ("b", "c", "a", "d")
        assert referenced_keys(single("k")) == ("k",)
        assert referenced_keys(list_condition(("a",), "any")) == ()
        assert referenced_keys(timeout_only()) == ()

    def test_required_signal_names(self) -> None:
        assert required_signal_names(list_condition(("a", "b"), "all")) == ("a", "b")
        for condition in (
            single("k"),
            operator_only(),
            timeout_only(),
            parse_condition(all_of(single_node(name="a"))),
        ):
            assert required_signal_names(condition) == ()


class TestFriendly:
    def test_lists(self) -> None:
        assert friendly_condition(["a", "b"], "any", 0, "", ()) == list_condition(("a", "b"), "any")
        assert friendly_condition(["a", "b"], "all", 0, "", ("k",)) == list_condition(
            ("a", "b"), "all", waitpoint_key="k"
        )
        assert friendly_condition(["a", "b"], "count", 2, "", ()) == list_condition(("a", "b"), "count", 2)
        assert friendly_condition([], "count", 3, "", ()).slots == ("", "", "")
        assert friendly_condition([], "any", 0, "", ("k",)) == single("k")

    @pytest.mark.parametrize(
        ("distinct", "kind"),
        [
            ("signals", "DistinctSignals"),
            ("sources", "DistinctSources"),
            ("waitpoints", "DistinctWaitpoints"),
        ],
    )
    def test_trees(self, distinct: str, kind: str) -> None:
        condition = friendly_condition(["a"], "count", 2, distinct, ("k0", "k1", "k0"))
        assert condition == Condition(form="tree", tree=(Node("Count", "", ("k0", "k1"), "a", 2, kind),))
        assert friendly_condition([], "count", 1, distinct, ("k",)).tree[0].matcher == ""

    @pytest.mark.parametrize(
        ("field", "names", "mode", "count", "distinct", "keys"),
        [
            ("mode", ["a"], "some", 0, "", ()),
            ("signals[1]", ["a", ""], "any", 0, "", ()),
            ("signals[0]", [7], "any", 0, "", ()),
            ("signals[0]", [OPERATOR_ONLY], "any", 0, "", ()),
            ("signals[0]", ["x" * 257], "any", 0, "", ()),
            ("signals", ["a"] * 257, "any", 0, "", ()),
            ("count", ["a"], "any", 1, "", ()),
            ("count", ["a"], "count", 0, "", ()),
            ("count", ["a"], "count", -1, "", ()),
            ("count", ["a"], "count", 2, "", ()),
            ("count", [], "count", 257, "", ()),
            ("count", ["a"], "count", MAX_COUNT + 1, "signals", ("k",)),
            ("distinct", ["a"], "all", 0, "signals", ("k",)),
            ("distinct", ["a"], "count", 1, "names", ("k",)),
            ("signals", ["a", "b"], "count", 1, "signals", ("k",)),
            ("waitpoint_key", ["a"], "count", 1, "signals", ()),
            ("waitpoint_key", ["a"], "any", 0, "", ("k", "l")),
            ("count", [], "count", 2, "waitpoints", ("k", "k")),
        ],
    )
    def test_refused(
        self, field: str, names: list[Any], mode: str, count: int, distinct: str, keys: tuple[str, ...]
    ) -> None:
        with pytest.raises(InvalidInput) as caught:
            friendly_condition(names, mode, count, distinct, keys)
        assert caught.value.field == field


class TestTrees:
    def test_count_of_signals(self) -> None:
        condition = parse_condition(count_node(2, name="go"))
        changed, effects = feed(
            condition, signal("s1"), signal("s1"), signal("s2", "no"), signal("s3", key="k9"), signal("s4")
        )
        assert effects == [MORE, REPEAT, REFUSED, DEAF, DONE]
        assert satisfiers(changed) == ("s1", "s4")
        assert offer(changed, signal("s5")) == (changed, NOTHING)

    def test_count_of_sources(self) -> None:
        condition = parse_condition(count_node(2, "DistinctSources"))
        changed, effects = feed(condition, *(signal(f"s{n}", source=who) for n, who in enumerate("aab")))
        assert effects == [MORE, REPEAT, DONE]
        assert satisfiers(changed) == ("s0", "s2")

    def test_sources_differ_by_type_too(self) -> None:
        condition = parse_condition(count_node(2, "DistinctSources"))
        first, second = (
            Offer("s1", "k0", "w", "go", "user", "ann"),
            Offer("s2", "k0", "w", "go", "service", "ann"),
        )
        assert feed(condition, first, second)[1] == [MORE, DONE]

    def test_count_of_waitpoints(self) -> None:
        condition = parse_condition(count_node(2, "DistinctWaitpoints", ("k0", "k1", "k2")))
        changed, effects = feed(
            condition, *(signal(f"s{n}", key=key) for n, key in enumerate(("k1", "k1", "k0")))
        )
        assert effects == [MORE, REPEAT, DONE]
        assert satisfiers(changed) == ("s0", "s2")

    def test_counts_do_not_share(self) -> None:
        condition = parse_condition(all_of(count_node(1, keys=("k0",)), count_node(1, keys=("k1",))))
        assert feed(condition, signal("s1"), signal("s2", key="k1"))[1] == [MORE, DONE]

    def test_one_signal_may_serve_several_nodes(self) -> None:
        condition = parse_condition(all_of(count_node(1, name="go"), single_node("k0")))
        changed, effects = feed(condition, signal("s1"))
        assert effects == [DONE]
        assert satisfiers(changed) == ("s1",)

    def test_deep_nesting(self) -> None:
        condition = parse_condition(all_of(all_of(all_of(count_node(1), single_node("k1")))))
        assert feed(condition, signal("s1", key="k1"), signal("s2"))[1] == [MORE, DONE]

    def test_single_counts_once(self) -> None:
        condition = parse_condition(all_of(single_node("k0"), single_node("k1")))
        changed, effects = feed(condition, signal("s1"), signal("s2"), signal("s3", key="k1"))
        assert effects == [MORE, REPEAT, DONE]
        assert satisfiers(changed) == ("s1", "s3")

    def test_order_of_acceptance_across_nodes(self) -> None:
        condition = parse_condition(all_of(single_node("k0"), count_node(2, keys=("k1",))))
        changed, _ = feed(condition, signal("s9", key="k1"), signal("s5"), signal("s1", key="k1"))
        assert satisfiers(changed) == ("s9", "s5", "s1")

    def test_never_by_signal(self) -> None:
        condition = parse_condition(all_of(single_node(), {"kind": "OperatorOnly"}))
        assert feed(condition, signal("s1"), signal("s2"))[1] == [MORE, REPEAT]

    def test_reserved_names_count_nowhere(self) -> None:
        condition = parse_condition(count_node(1))
        assert offer(condition, signal("s1", TIMEOUT_ONLY)) == (condition, REFUSED)

    def test_satisfiers_are_bounded(self) -> None:
        condition = parse_condition(all_of(count_node(1), single_node("k1")))
        for n in range(MAX_COUNT):
            condition, effect = offer(condition, signal(f"s{n}"))
            assert effect == MORE
        assert offer(condition, signal("more")) == (condition, REPEAT)
        assert offer(condition, signal("end", key="k1"))[1] == DONE


KEYS, NAMES = ("k0", "k1", "k2"), ("a", "b")
maybe_name = st.sampled_from([None, *NAMES])
singles = st.builds(single_node, st.sampled_from(KEYS), maybe_name)
counts = st.builds(
    count_node,
    st.integers(1, 3),
    st.sampled_from(["DistinctSignals", "DistinctSources"]),
    st.lists(st.sampled_from(KEYS), min_size=1, unique=True).map(tuple),
    st.sampled_from(["", *NAMES]),
) | st.builds(
    count_node, st.integers(1, 3), st.just("DistinctWaitpoints"), st.just(KEYS), st.sampled_from(["", *NAMES])
)
level_one = singles | counts | st.just({"kind": "OperatorOnly"})
level_two = level_one | st.lists(level_one, min_size=1, max_size=3).map(lambda members: all_of(*members))
trees = counts | st.lists(level_two, min_size=1, max_size=3).map(lambda members: all_of(*members))
offers = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([*NAMES, "c"]), st.sampled_from("xy")), max_size=12
).map(lambda rows: [signal(f"s{n}", name, key, who) for n, (key, name, who) in enumerate(rows)])


def heard(node: dict[str, Any], signals: list[Offer]) -> list[Offer]:
    keys = node.get("waitpoints") or [node.get("waitpoint_key")]
    name = (node.get("matcher") or {}).get("name")
    return [each for each in signals if each.waitpoint_key in keys and name in {None, each.name}]


def holds(node: dict[str, Any], signals: list[Offer]) -> bool:
    """Recompute a node from everything that was ever offered."""
    if node["kind"] == "AllOf":
        return all(holds(member, signals) for member in node["members"])
    if node["kind"] == "OperatorOnly":
        return False
    kind = node.get("count_kind", "")
    tokens = {
        (each.source_type, each.source_identity)
        if kind == "DistinctSources"
        else each.waitpoint_id
        if kind == "DistinctWaitpoints"
        else each.ref
        for each in heard(node, signals)
    }
    return bool(len(tokens) >= node.get("n", 1))


@given(trees, offers)
def test_trees_against_recomputation(tree: dict[str, Any], signals: list[Offer]) -> None:
    condition = parse_condition(tree)
    for number, each in enumerate(signals, 1):
        before = condition
        condition, effect = offer(condition, each)
        assert satisfied(condition) == holds(tree, signals[:number])
        assert (effect == DONE) == (satisfied(condition) and not satisfied(before))
        assert (condition != before) == (effect in {DONE, MORE})
        assert (each.ref in satisfiers(condition)) == (effect in {DONE, MORE})
        if satisfied(condition):
            break
    assert holds(tree, [each for each in signals if each.ref in satisfiers(condition)]) == satisfied(
        condition
    )
    assert list(satisfiers(condition)) == sorted(set(satisfiers(condition)), key=lambda ref: int(ref[1:]))


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
    st.sampled_from(["any", "all", "count"]),
    st.integers(1, 4),
    st.lists(st.sampled_from([*NAMES, "c"]), max_size=8),
)
def test_lists_against_recomputation(names: list[str], mode: str, minimum: int, sent: list[str]) -> None:
    minimum = min(minimum, len(names))
    condition = list_condition(names, mode, minimum)
    needed = {"any": 1, "all": len(names), "count": minimum}[mode]
    effects = named(condition, "".join(sent))
    reached = [
        sum(min(names.count(name), sent[:number].count(name)) for name in NAMES)
        for number in range(len(sent) + 1)
    ]
    for (before, after), effect in zip(itertools.pairwise(reached), effects, strict=True):
        open_still = before < needed
        expected = NOTHING if after == before or not open_still else DONE if after >= needed else MORE
        assert effect == expected
