"""Kinds: published, deleted, found by name, listed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from flowfabric.model.contracts.kinds import (
    FOR_ALL,
    DeleteKind,
    FindKinds,
    GetKind,
    KindDeleted,
    KindPage,
    ListKinds,
    Published,
    PublishKind,
    Unchanged,
)
from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.model.limits import MAX_KIND_NAMESPACES, MAX_KIND_PAGE_BYTES, MAX_KINDS
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import VERSION, Kind, KindName, KindNames, KindNamespaces

_encode: Final = msgspec.msgpack.Encoder().encode


@step(PublishKind)
def publish_kind(space: Workspace, command: PublishKind) -> Published | Unchanged:
    """Store a kind if it differs from what is stored."""
    namespace, name = command.namespace, command.kind
    digest = command.digest()
    known: Kind | None = space.get("kind", namespace, name)
    if known is not None and known.digest == digest:
        return Unchanged()
    kind = Kind(
        VERSION, name, namespace, command.lane, command.priority, command.tags, command.required_capabilities,
        command.fairness_key, command.fairness_weight, command.policy, command.input_schema, command.description,
        space.now, command.actor, digest,
    )  # fmt: skip
    others = [each for each in _names(space, namespace) if each.name != name]
    if known is None:
        if len(others) >= MAX_KINDS:
            problem = f"there are {MAX_KINDS} kinds in this namespace; delete one first"
            raise refuse("invalid_input", text=problem, field="kind")
        if not others:
            _add_namespace(space, namespace)
    _put_names(space, namespace, [*others, KindName(name, len(_encode(kind)))])
    space.put("kind", namespace, name, value=kind)
    return Published()


@step(DeleteKind)
def delete_kind(space: Workspace, command: DeleteKind) -> KindDeleted:
    """Delete a kind of one namespace."""
    namespace, name = command.namespace, command.kind
    if space.get("kind", namespace, name) is None:
        raise _not_found(name)
    left = [each for each in _names(space, namespace) if each.name != name]
    if not left:
        known = [each for each in _namespaces(space) if each != namespace]
        space.put("kind_namespaces", value=KindNamespaces(VERSION, tuple(known)) if known else None)
    _put_names(space, namespace, left)
    space.put("kind", namespace, name, value=None)
    return KindDeleted()


@step(GetKind)
def get_kind(space: Workspace, question: GetKind) -> Kind:
    """Return the kind that holds in a namespace."""
    kind = _holding(space, question.namespace, question.kind)
    if kind is None:
        raise _not_found(question.kind)
    return kind


@step(FindKinds)
def find_kinds(space: Workspace, question: FindKinds) -> tuple[Kind | None, ...]:
    """Return the kinds that hold, as far as submissions need them."""
    found = (_holding(space, *pair) for pair in question.wanted)
    return tuple(None if kind is None else replace(kind, input_schema="", description="") for kind in found)


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
    kinds = [kind for kind in space.several("kind", chosen) if kind is not None]
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
    own: Kind | None = space.get("kind", namespace, name)
    if own is not None or namespace == FOR_ALL:
        return own
    for_all: Kind | None = space.get("kind", FOR_ALL, name)
    return for_all


def _names(space: Workspace, namespace: str) -> tuple[KindName, ...]:
    names: KindNames | None = space.get("kind_names", namespace)
    return () if names is None else names.names


def _put_names(space: Workspace, namespace: str, names: list[KindName]) -> None:
    ordered = tuple(sorted(names, key=lambda each: each.name))
    space.put("kind_names", namespace, value=KindNames(VERSION, ordered) if ordered else None)


def _namespaces(space: Workspace) -> tuple[str, ...]:
    known: KindNamespaces | None = space.get("kind_namespaces")
    return () if known is None else known.namespaces


def _add_namespace(space: Workspace, namespace: str) -> None:
    known = _namespaces(space)
    if len(known) >= MAX_KIND_NAMESPACES:
        problem = f"{MAX_KIND_NAMESPACES} namespaces have kinds; delete those of one first"
        raise refuse("invalid_input", text=problem, field="namespace")
    ordered = tuple(sorted({*known, namespace}))
    space.put("kind_namespaces", value=KindNamespaces(VERSION, ordered))


def _not_found(name: str) -> FlowFabricError:
    return refuse("kind_not_found", text=f"no worker has published the kind {name}", field="kind")
