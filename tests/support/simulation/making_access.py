"""Making tokens of people and programs."""

from __future__ import annotations

from flowfabric.model.operations.access import CreateToken, DeleteToken, ListTokens, SignLink
from flowfabric.model.operations.access_secret import ReadCursorKeys
from support.simulation.making import Hand, maker

IDS = tuple(f"00000000-0000-4000-8000-00000000000{n}" for n in range(2))


@maker(CreateToken)
def create_token(hand: Hand) -> CreateToken:
    draw = hand.draw
    return CreateToken(
        token_id=draw.pick(IDS),
        name=draw.pick(("ci", "ops", "")),
        role=draw.pick(("worker", "reader")),
        digest=draw.pick(("ab" * 32, "cd" * 32, "odd")),
        namespace=draw.pick(("", "tenant")),
        expires_at=draw.pick((0, 0, hand.soon())),
    )


@maker(DeleteToken)
def delete_token(hand: Hand) -> DeleteToken:
    return DeleteToken(token_id=hand.draw.pick(IDS))


@maker(ListTokens)
def list_tokens(_: Hand) -> ListTokens:
    return ListTokens()


@maker(ReadCursorKeys)
def read_cursor_keys(_: Hand) -> ReadCursorKeys:
    return ReadCursorKeys()


@maker(SignLink)
def sign_link(hand: Hand) -> SignLink:
    known = hand.run()
    ids = [each.waitpoint_id for each in known.waitpoints] or [hand.draw.uuid()]
    return SignLink(
        **hand.on(known),
        waitpoint_id=hand.draw.pick(ids),
        text=hand.draw.pick(("a", "b", "")),
        kid=hand.draw.pick(("", "", "k1", "k9")),
    )
