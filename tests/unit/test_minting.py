"""Ids are random UUIDs, and nobody ever gets one that somebody else has."""

from __future__ import annotations

import multiprocessing
import threading
import uuid

import pytest

from flowfabric.storage.minting import new_uuid

MANY = 1_000


def some() -> list[str]:
    return [new_uuid() for _ in range(MANY)]


def test_ids_are_uuids_of_version_4_in_their_usual_spelling() -> None:
    for text in some():
        found = uuid.UUID(text)
        assert (found.version, found.variant, str(found)) == (4, uuid.RFC_4122, text)


def test_threads_get_ids_of_their_own() -> None:
    minted: list[str] = []
    threads = [threading.Thread(target=lambda: minted.extend(some())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(minted)) == len(minted) == 4 * MANY


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_gets_ids_of_its_own() -> None:
    new_uuid()  # what is ready now is ready in the child, too
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(some()))
    child.start()
    assert ours.poll(30)
    assert not set(ours.recv()) & set(some())
    child.join()
