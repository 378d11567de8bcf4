"""Publish, delete and list kinds of executions."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import Command, Question, R_co, ReadRequest
from flowfabric.model.errors import FlowFabricError, invalid, refuse
from flowfabric.model.limits import (
    MAX_DESCRIPTION_BYTES,
    MAX_FAIRNESS_WEIGHT,
    MAX_KIND_NAMESPACES,
    MAX_KIND_PAGE_BYTES,
    MAX_KINDS,
    MAX_KINDS_PER_LOOKUP,
    MAX_KINDS_PER_PAGE,
    MAX_NAME_BYTES,
    MAX_POLICY_BYTES,
    MAX_PRIORITY,
    MAX_SCHEMA_BYTES,
)
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.policy import parse_policy
from flowfabric.model.record_kinds import KIND, KIND_NAMES, KIND_NAMESPACES
from flowfabric.model.records import VERSION, Kind, KindName, KindNames, KindNamespaces

FOR_ALL: Final = ""
"""The namespace of a kind that holds in every namespace without one of its own."""


class _KindCommand(Command[R_co], frozen=True, kw_only=True):
    kind: str
    namespace: str = FOR_ALL

    def check(self) -> None:
        """Check the name of the kind and its namespace."""
        super().check()
        checks.name("kind", self.kind)
        checks.name("namespace", self.namespace, empty=True)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The kind, and the names of the namespace's kinds."""
        return ((KIND, (self.namespace, self.kind)), kind_names(self.namespace))


class Published(Struct, frozen=True):
    """The kind is stored as it was sent."""


class Unchanged(Struct, frozen=True):
    """The kind was stored like this before; nothing was written."""


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
            self.namespace,
            self.kind,
            self.lane,
            self.priority,
            self.tags,
            self.required_capabilities,
            self.fairness_key,
            self.fairness_weight,
            _loaded(self.policy),
            _loaded(self.input_schema),
            self.description,
        )
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


@step(PublishKind)
def publish_kind(space: Workspace, command: PublishKind) -> Published | Unchanged:
    """Store a kind if it differs from what is stored."""
    namespace, name = command.namespace, command.kind
    digest = command.digest()
    known = space.get(KIND, namespace, name)
    if known is not None and known.digest == digest:
        return Unchanged()
    kind = Kind(
        VERSION,
        name,
        namespace,
        command.lane,
        command.priority,
        command.tags,
        command.required_capabilities,
        command.fairness_key,
        command.fairness_weight,
        command.policy,
        command.input_schema,
        command.description,
        space.now,
        command.actor,
        digest,
    )
    others = [each for each in _names(space, namespace) if each.name != name]
    if known is None:
        if len(others) >= MAX_KINDS:
            problem = f"there are {MAX_KINDS} kinds in this namespace; delete one first"
            raise refuse("invalid_input", text=problem, field="kind")
        if not others:
            _add_namespace(space, namespace)
    _put_names(space, namespace, [*others, KindName(name, len(_encode(kind)))])
    space.put(KIND, namespace, name, value=kind)
    return Published()


class KindDeleted(Struct, frozen=True):
    """The kind is gone; submissions of it have no defaults."""


class DeleteKind(_KindCommand[KindDeleted], frozen=True, kw_only=True):
    """Delete a kind of exactly this namespace; refused with `kind_not_found` when there is none."""


@step(DeleteKind)
def delete_kind(space: Workspace, command: DeleteKind) -> KindDeleted:
    """Delete a kind of one namespace."""
    namespace, name = command.namespace, command.kind
    if space.get(KIND, namespace, name) is None:
        raise _not_found(name)
    left = [each for each in _names(space, namespace) if each.name != name]
    if not left:
        known = [each for each in _namespaces(space) if each != namespace]
        space.put(KIND_NAMESPACES, value=KindNamespaces(VERSION, tuple(known)) if known else None)
    _put_names(space, namespace, left)
    space.put(KIND, namespace, name, value=None)
    return KindDeleted()


class GetKind(Question[Kind], frozen=True, kw_only=True):
    """Return the kind that holds in a namespace: its own, else the one for all. Refused with `kind_not_found`."""

    kind: str
    namespace: str = FOR_ALL

    def check(self) -> None:
        """Check both names."""
        super().check()
        checks.name("kind", self.kind)
        checks.name("namespace", self.namespace, empty=True)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The kind of the namespace, and the one for all."""
        return _candidates(self.namespace, self.kind)


@step(GetKind)
def get_kind(space: Workspace, question: GetKind) -> Kind:
    """Return the kind that holds in a namespace."""
    kind = _holding(space, question.namespace, question.kind)
    if kind is None:
        raise _not_found(question.kind)
    return kind


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

    def reads(self) -> tuple[ReadRequest, ...]:
        """For each pair the kind of the namespace, and the one for all."""
        return tuple(need for pair in self.wanted for need in _candidates(*pair))


@step(FindKinds)
def find_kinds(space: Workspace, question: FindKinds) -> tuple[Kind | None, ...]:
    """Return the kinds that hold, as far as submissions need them."""
    found = (_holding(space, *pair) for pair in question.wanted)
    return tuple(None if kind is None else replace(kind, input_schema="", description="") for kind in found)


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


@step(ListKinds)
def list_kinds(space: Workspace, question: ListKinds) -> KindPage:
    """Return one page; how large each kind is stands beside its name, so that no page is loaded in vain."""
    chosen: list[tuple[str, str]] = []
    size = 0
    more = False
    for namespace, entry in _entries(space, question):
        size += entry.size
        if len(chosen) == question.limit or (chosen and size > MAX_KIND_PAGE_BYTES):
            more = True
            break
        chosen.append((namespace, entry.name))
    kinds = [kind for kind in space.several(KIND, chosen) if kind is not None]
    return KindPage(tuple(kinds), chosen[-1] if more else None)


def _entries(space: Workspace, question: ListKinds) -> Iterator[tuple[str, KindName]]:
    """Yield the names of a list from where it begins."""
    if question.namespace is None:
        namespaces = _namespaces(space)
    else:
        namespaces = tuple(dict.fromkeys((FOR_ALL, question.namespace)))
    after = question.after
    for namespace in namespaces[bisect_left(namespaces, after[0]) if after else 0 :]:
        names = _names(space, namespace)
        start = 0
        if after and after[0] == namespace:
            start = bisect_right(names, after[1], key=lambda each: each.name)
        for entry in names[start:]:
            yield namespace, entry


def _holding(space: Workspace, namespace: str, name: str) -> Kind | None:
    own = space.get(KIND, namespace, name)
    if own is not None or namespace == FOR_ALL:
        return own
    return space.get(KIND, FOR_ALL, name)


_encode: Final = msgspec.msgpack.Encoder().encode


def _names(space: Workspace, namespace: str) -> tuple[KindName, ...]:
    names = space.get(KIND_NAMES, namespace)
    return () if names is None else names.names


def _put_names(space: Workspace, namespace: str, names: list[KindName]) -> None:
    ordered = tuple(sorted(names, key=lambda each: each.name))
    space.put(KIND_NAMES, namespace, value=KindNames(VERSION, ordered) if ordered else None)


def _namespaces(space: Workspace) -> tuple[str, ...]:
    known = space.get(KIND_NAMESPACES)
    return () if known is None else known.namespaces


def _add_namespace(space: Workspace, namespace: str) -> None:
    known = _namespaces(space)
    if len(known) >= MAX_KIND_NAMESPACES:
        problem = f"{MAX_KIND_NAMESPACES} namespaces have kinds; delete those of one first"
        raise refuse("invalid_input", text=problem, field="namespace")
    ordered = tuple(sorted({*known, namespace}))
    space.put(KIND_NAMESPACES, value=KindNamespaces(VERSION, ordered))


def _not_found(name: str) -> FlowFabricError:
    return refuse("kind_not_found", text=f"no worker has published the kind {name}", field="kind")


def kind_names(namespace: str) -> ReadRequest:
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


def _candidates(namespace: str, kind: str) -> tuple[ReadRequest, ...]:
    return tuple((KIND, (each, kind)) for each in dict.fromkeys((namespace, FOR_ALL)))


def _check_object(field: str, text: str, most: int) -> None:
    checks.text(field, text, max_bytes=most, empty=True)
    try:
        if text and not isinstance(_loaded(text), dict):
            raise invalid(field, "must be a JSON object")
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid(field, f"must be a JSON object ({error})") from error


def _loaded(text: str) -> Any:
    return msgspec.json.decode(text) if text else None
