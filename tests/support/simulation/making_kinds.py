"""Making kinds that workers publish."""

from __future__ import annotations

from flowfabric.model.operations.kind import DeleteKind, FindKinds, GetKind, ListKinds, PublishKind
from support.simulation.making import Hand, maker

NAMES = ("greet", "greet", "greet@2", "")
NAMESPACES = ("", "", "tenant")


@maker(PublishKind)
def publish_kind(hand: Hand) -> PublishKind:
    draw = hand.draw
    return PublishKind(
        kind=draw.pick(NAMES),
        namespace=draw.pick(NAMESPACES),
        lane=draw.pick(("", "slow")),
        priority=draw.pick((None, 0, 7, 10_000)),
        policy=draw.pick(("", '{"retry_policy":{"max_retries":1}}', "odd")),
    )


@maker(DeleteKind)
def delete_kind(hand: Hand) -> DeleteKind:
    return DeleteKind(kind=hand.draw.pick(NAMES), namespace=hand.draw.pick(NAMESPACES))


@maker(GetKind)
def get_kind(hand: Hand) -> GetKind:
    return GetKind(kind=hand.draw.pick(NAMES), namespace=hand.draw.pick(NAMESPACES))


@maker(FindKinds)
def find_kinds(hand: Hand) -> FindKinds:
    pairs = (hand.draw.pick(NAMESPACES), hand.draw.pick(NAMES)), (hand.draw.pick(NAMESPACES), "greet")
    return FindKinds(wanted=pairs)


@maker(ListKinds)
def list_kinds(hand: Hand) -> ListKinds:
    return ListKinds(
        namespace=hand.draw.pick((None, *NAMESPACES)),
        after=hand.draw.pick((None, ("", "greet"), ("tenant", "a"))),
        limit=hand.draw.pick((1, 2, 100)),
    )
