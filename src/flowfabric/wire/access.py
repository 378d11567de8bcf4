"""Access: tokens of people and programs, approval links, and the secret that signs waitpoint tokens."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from flowfabric.model.limits import DAY_MS
from flowfabric.model.operations.access import ApprovalLink
from flowfabric.wire.answers import OneOf, View
from flowfabric.wire.fields import Body, Ms, Uuid
from flowfabric.wire.rights import Right, Role
from flowfabric.wire.route import RUN, route

LONGEST_LINK_MS: Final = 3_650 * DAY_MS
"""Ten years."""
MAX_CHOICES: Final = 8
MAX_COMMENT_LENGTH: Final = 2_000
MAX_NAME_LENGTH: Final = 128


class TokenBody(Body, frozen=True):
    """A token to create."""

    name: str
    role: Annotated[str, Meta(extra_json_schema={"enum": list(Role)})]
    namespace: str | None = None
    expires_at: Ms | None = None


class TokenRow(View, frozen=True, kw_only=True):
    """A token, without what opens the server."""

    token_id: str
    name: str
    role: str
    namespace: str | None
    expires_at: int | None
    created_at: int
    created_by: str


class NewToken(TokenRow, frozen=True, kw_only=True):
    """A token that was created. What opens the server is shown this once."""

    token: str


class TokenPage(View, frozen=True, kw_only=True):
    """Tokens in the order of their creation."""

    tokens: tuple[TokenRow, ...]
    next_cursor: str | None


class Deleted(View, frozen=True, kw_only=True):
    """What was named is gone."""


CREATE_TOKEN = route(
    "create_token",
    "POST",
    "/v1/admin/tokens",
    Right.ADMIN,
    "Create a token with a role.",
    body=TokenBody,
    answer=NewToken,
    statuses=((201, "The token. It is shown this once."),),
    example={"name": "ci", "role": "submitter", "namespace": "default"},
)
LIST_TOKENS = route(
    "list_tokens",
    "GET",
    "/v1/admin/tokens",
    Right.ADMIN,
    "List tokens without what they are.",
    answer=TokenPage,
)
DELETE_TOKEN = route(
    "delete_token",
    "DELETE",
    "/v1/admin/tokens/{token_id}",
    Right.ADMIN,
    "Delete a token; it opens nothing from now on.",
    answer=OneOf({"Deleted": Deleted}),
)


class RotateBody(Body, frozen=True):
    """The key that signs from now on."""

    new_kid: str
    new_secret_hex: str


class RotatedView(View, frozen=True, kw_only=True):
    """How many partitions have the new key."""

    rotated: int
    failed: list[Any]
    in_progress: list[Any]
    new_kid: str


ROTATE = route(
    "rotate",
    "POST",
    "/v1/admin/rotate-waitpoint-secret",
    Right.ADMIN,
    "Sign waitpoint tokens with a new secret; older tokens stay good for the grace that is configured.",
    body=RotateBody,
    answer=RotatedView,
    classic=True,
    example={"new_kid": "k2", "new_secret_hex": "<64 hex digits>"},
)


class LinkBody(Body, frozen=True):
    """A link to make: for one signal, or for several to choose from."""

    signal_name: str | None = None
    signal_names: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_CHOICES)] | None = None
    expires_in_ms: Annotated[int, Meta(ge=1, le=LONGEST_LINK_MS)] | None = None
    expires_at: Ms | None = None
    """In place of `expires_in_ms`."""
    source_identity: str | None = None
    """Who is asked; without it the visitor says who they are."""
    link_id: Uuid | None = None
    """The caller's own id: the same request with the same id gives the same link, also when the wait is over."""


CREATE_LINK = route(
    "create_link",
    "POST",
    f"{RUN}/waitpoints/{{waitpoint_id}}/link",
    Right.OPERATE,
    "Make a link that lets its holder send one signal to a waitpoint.",
    body=LinkBody,
    answer=ApprovalLink,
    statuses=((201, "The link, and until when it works."),),
    safe=lambda link: bool(link.link_id),
    example={"signal_name": "approved", "expires_in_ms": 86400000},
)


class LinkAnswerBody(Body, frozen=True):
    """What a visitor answers."""

    signal: str | None = None
    """One of the link's signals; it may be left out when there is only one."""
    comment: Annotated[str, Meta(max_length=MAX_COMMENT_LENGTH)] = ""
    """Delivered as the payload `{"comment": ...}`."""
    name: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)] = ""
    """Who answers, where the link does not say."""


SHOW_LINK = route(
    "show_link",
    "GET",
    "/links/{signed}",
    Right.NOTHING,
    "Show what a link is about; this changes nothing.",
    media="text/html",
    statuses=((200, "A page that asks."),),
)
USE_LINK = route(
    "use_link", "POST", "/links/{signed}", Right.NOTHING, "Send a signal of a link.",
    body=LinkAnswerBody, body_optional=True, form=True, media="text/html",
    statuses=((200, "What the signal did."), (409, "The work starts again after an interruption; try again soon.")),
    example={"signal": "approve", "comment": "as agreed", "name": "Ada"},
)  # fmt: skip
