"""Kinds: what the code of a task says about it, published by workers and used by whoever submits it by name."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.contracts.base import Command, Need, R_co
from flowfabric.model.contracts.reads import Question
from flowfabric.model.errors import invalid
from flowfabric.model.limits import (
    MAX_DESCRIPTION_BYTES,
    MAX_FAIRNESS_WEIGHT,
    MAX_KINDS_PER_LOOKUP,
    MAX_KINDS_PER_PAGE,
    MAX_NAME_BYTES,
    MAX_POLICY_BYTES,
    MAX_PRIORITY,
    MAX_SCHEMA_BYTES,
)
from flowfabric.model.policy import parse_policy
from flowfabric.model.records import Kind

FOR_ALL: Final = ""
"""The namespace of a kind that holds in every namespace without one of its own."""


class Published(Struct, frozen=True):
    """The kind is stored as it was sent."""


class Unchanged(Struct, frozen=True):
    """The kind was stored like this before; nothing was written."""


class KindDeleted(Struct, frozen=True):
    """The kind is gone; submissions of it have no defaults."""


class _KindCommand(Command[R_co], frozen=True, kw_only=True):
    kind: str
    namespace: str = FOR_ALL

    def check(self) -> None:
        """Check the name of the kind and its namespace."""
        super().check()
        checks.name("kind", self.kind)
        checks.name("namespace", self.namespace, empty=True)

    def needs(self) -> tuple[Need, ...]:
        """The kind, and the names of the namespace's kinds."""
        return (("kind", (self.namespace, self.kind)), kind_names(self.namespace))


class PublishKind(_KindCommand[Published | Unchanged], frozen=True, kw_only=True):
    """Store the defaults and the description of a kind; `actor` is who publishes it. The last publisher wins."""

    lane: str = ""
    """Empty: not said."""
    priority: int | None = None
    tags: tuple[tuple[str, str], ...] = ()
    required_capabilities: tuple[str, ...] = ()
    fairness_key: str = ""
    fairness_weight: int | None = None
    policy: str = ""
    """JSON text of the policy object."""
    input_schema: str = ""
    """JSON Schema of the arguments, as JSON text; empty when it cannot be told."""
    description: str = ""

    def check(self) -> None:
        """Check every field."""
        super().check()
        if self.lane:
            checks.lane(self.lane, "lane")
        if self.priority is not None:
            checks.integer("priority", self.priority, 0, MAX_PRIORITY)
        if self.tags != checks.tags(dict(self.tags)):
            raise invalid("tags", "send each key once, in sorted order")
        if self.required_capabilities != checks.required_capabilities(list(self.required_capabilities)):
            raise invalid("required_capabilities", "send each once, in sorted order")
        checks.text("fairness_key", self.fairness_key, max_bytes=MAX_NAME_BYTES, empty=True)
        if self.fairness_weight is not None:
            check_fairness_weight(self.fairness_weight)
        _check_object("policy", self.policy, MAX_POLICY_BYTES)
        parse_policy(self.policy)
        _check_object("input_schema", self.input_schema, MAX_SCHEMA_BYTES)
        checks.text("description", self.description, max_bytes=MAX_DESCRIPTION_BYTES, empty=True)

    def digest(self) -> str:
        """Return the SHA-256 of everything that is published; the order of JSON keys does not count."""
        content = (
            self.namespace, self.kind, self.lane, self.priority, self.tags, self.required_capabilities,
            self.fairness_key, self.fairness_weight, _loaded(self.policy), _loaded(self.input_schema),
            self.description,
        )  # fmt: skip
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


class DeleteKind(_KindCommand[KindDeleted], frozen=True, kw_only=True):
    """Delete a kind of exactly this namespace; refused with `kind_not_found` when there is none."""


class GetKind(Question[Kind], frozen=True, kw_only=True):
    """Return the kind that holds in a namespace: its own, else the one for all. Refused with `kind_not_found`."""

    kind: str
    namespace: str = FOR_ALL

    def check(self) -> None:
        """Check both names."""
        super().check()
        checks.name("kind", self.kind)
        checks.name("namespace", self.namespace, empty=True)

    def needs(self) -> tuple[Need, ...]:
        """The kind of the namespace, and the one for all."""
        return _candidates(self.namespace, self.kind)


class FindKinds(Question[tuple[Kind | None, ...]], frozen=True, kw_only=True):
    """Return the kinds that hold for several pairs of namespace and name, without schema and description."""

    wanted: tuple[tuple[str, str], ...]

    def check(self) -> None:
        """Check how many there are, and every name."""
        super().check()
        if len(self.wanted) > MAX_KINDS_PER_LOOKUP:
            raise invalid("wanted", f"at most {MAX_KINDS_PER_LOOKUP} kinds in one lookup")
        for pair in self.wanted:
            _check_pair("wanted", pair)

    def needs(self) -> tuple[Need, ...]:
        """For each pair the kind of the namespace, and the one for all."""
        return tuple(need for pair in self.wanted for need in _candidates(*pair))


class KindPage(Struct, frozen=True):
    """Some kinds, and where the next page begins."""

    kinds: tuple[Kind, ...]
    next: tuple[str, str] | None = None
    """Namespace and name of the last kind of this page; none: there are no more."""


class ListKinds(Question[KindPage], frozen=True, kw_only=True):
    """Return kinds by namespace and name, those for all first. A page holds at most 4 MiB."""

    namespace: str | None = None
    """The kinds of this namespace and those for all; none: of every namespace."""
    after: tuple[str, str] | None = None
    limit: int = 100

    def check(self) -> None:
        """Check the names and the size of the page."""
        super().check()
        if self.namespace is not None:
            checks.name("namespace", self.namespace, empty=True)
        if self.after is not None:
            _check_pair("after", self.after)
        checks.integer("limit", self.limit, 1, MAX_KINDS_PER_PAGE)


def kind_names(namespace: str) -> Need:
    """Name the record that lists the kinds of a namespace."""
    return "kind_names", (namespace,)


def check_fairness_weight(weight: object) -> int:
    """Refuse a weight out of range."""
    return checks.integer("fairness_weight", weight, 1, MAX_FAIRNESS_WEIGHT)


def _check_pair(field: str, pair: object) -> None:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise invalid(field, "must be a namespace and the name of a kind")
    checks.name(field, pair[0], empty=True)
    checks.name(field, pair[1])


def _candidates(namespace: str, kind: str) -> tuple[Need, ...]:
    return tuple(("kind", (each, kind)) for each in dict.fromkeys((namespace, FOR_ALL)))


def _check_object(field: str, text: str, most: int) -> None:
    checks.text(field, text, max_bytes=most, empty=True)
    try:
        if text and not isinstance(_loaded(text), dict):
            raise invalid(field, "must be a JSON object")
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid(field, f"must be a JSON object ({error})") from error


def _loaded(text: str) -> Any:
    return msgspec.json.decode(text) if text else None
