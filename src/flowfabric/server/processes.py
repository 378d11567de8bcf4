"""Several processes on one port: the parent binds it, the children serve it, each with the same store.

The parent opens no store and runs no event loop, so that forking it is safe at any time. It starts a child anew when
one dies, hands signals on, and its own death ends the children.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Final

from msgspec import Struct

from flowfabric.server.http.listener import REQUEST_SECONDS, bind, problem, where
from flowfabric.server.observe import sharing
from flowfabric.server.run import FAILED, OK, SIGNALS, failed, run_one
from flowfabric.server.settings import Settings

PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
YOUNG_SECONDS: Final = 10.0
END_SECONDS: Final = REQUEST_SECONDS + 60.0
"""After that a child that was told to stop is killed."""

log = logging.getLogger("flowfabric.server")


class _Child(Struct):
    """One process, its place among the others, and the pipe on which it says that it serves."""

    pid: int
    place: int
    began: float
    pipe: int


def supervise(settings: Settings) -> int:
    """Run the children until a signal, and return the exit code."""
    if not hasattr(os, "fork"):
        return failed("FF_PROCESSES: this system cannot share a port between processes")
    try:
        sockets = bind(settings)
    except OSError as error:
        return failed(problem(settings, error))
    log.info("sharing addr=%s between processes=%d", ",".join(map(where, sockets)), settings.processes)
    folder = sharing.make_folder()
    try:
        return _Parent(settings, sockets, folder).run()
    finally:
        sharing.remove_folder(folder)


class _Parent:
    """Starts children, buries them, and ends with them."""

    def __init__(self, settings: Settings, sockets: Sequence[socket.socket], folder: str) -> None:
        self._settings = settings
        self._sockets = sockets
        self._folder = folder
        self._pid = os.getpid()
        self._children: dict[int, _Child] = {}
        self._missing: list[float] = []
        """When each child that is missing shall be started."""
        self._pause = PAUSE_SECONDS
        self._served = False
        """Whether any child has ever served: before that, a failing one is a reason to give up."""
        self._code = OK
        self._stopping = 0.0
        self._lifeline, self._mine = os.pipe()
        self._alarm, self._bell = os.pipe()
        os.set_blocking(self._bell, False)

    def run(self) -> int:
        """Keep the children running until a signal comes or none can start."""
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it only has to wake us
        self._missing = [0.0] * self._settings.processes
        while self._children or (self._missing and not self._stopping):
            self._start_missing()
            self._wait()
            self._bury()
            self._kill_late()
        log.info("all processes have ended")
        return self._code

    def _start_missing(self) -> None:
        now = time.monotonic()
        due = [at for at in self._missing if at <= now and not self._stopping]
        for at in due:
            self._missing.remove(at)
            self._fork()

    def _fork(self) -> None:
        mine, theirs = os.pipe()
        taken = {child.place for child in self._children.values()}
        place = min(set(range(self._settings.processes)) - taken)
        # A signal between the fork and the child's own handlers must not be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._be_child(place, mine, theirs)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(theirs)
        self._children[pid] = _Child(pid, place, time.monotonic(), mine)

    def _be_child(self, place: int, mine: int, theirs: int) -> None:
        code = FAILED
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            for descriptor in (mine, self._mine, self._alarm, self._bell):
                os.close(descriptor)
            for other in self._children.values():
                if other.pipe >= 0:
                    os.close(other.pipe)
            sharing.join(self._folder, place)
            code = run_one(self._settings, self._sockets, ready=lambda: _say(theirs), lifeline=self._lifeline)
        except BaseException:
            log.exception("a defect in a process of the server")
        finally:
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            if os.getppid() != self._pid:  # nobody else is left to do it
                sharing.remove_folder(self._folder)
            os._exit(code)

    def _wait(self) -> None:
        pipes = {child.pipe: child for child in self._children.values() if child.pipe >= 0}
        waits = [at - time.monotonic() for at in self._missing if not self._stopping]
        timeout = max(0.0, min([1.0, *waits]))
        ready, _, _ = select.select([self._alarm, *pipes], [], [], timeout)
        for descriptor in ready:
            if descriptor == self._alarm:
                os.read(self._alarm, 1024)
                continue
            child = pipes[descriptor]
            if os.read(descriptor, 1):
                self._served = True
            os.close(descriptor)
            child.pipe = -1

    def _bury(self) -> None:
        for pid in list(self._children):
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self._ended(self._children.pop(pid), os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, code: int) -> None:
        if child.pipe >= 0:
            self._served = self._served or bool(os.read(child.pipe, 1))
            os.close(child.pipe)
        if self._stopping:
            # A child that had no handlers yet dies of the signal itself, and has done nothing.
            asked = code in {OK, -signal.SIGTERM, -signal.SIGINT}
            self._code = self._code or (OK if asked else max(code, FAILED))
            return
        if not self._served and code > 0:
            log.error("a process could not start (exit_code=%d), giving up", code)
            self._code = code
            self._stop(signal.SIGTERM)
            return
        young = time.monotonic() - child.began < YOUNG_SECONDS
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS) if young else PAUSE_SECONDS
        log.warning(
            "process %d ended (exit_code=%d), starting another in %.1f s", child.pid, code, self._pause
        )
        self._missing.append(time.monotonic() + self._pause)

    def _signalled(self, number: int, _: FrameType | None) -> None:
        self._stop(number)

    def _stop(self, number: int) -> None:
        """Hand a signal on; a second one reaches the children as their second."""
        self._stopping = self._stopping or time.monotonic()
        for pid in list(self._children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _kill_late(self) -> None:
        if self._stopping and time.monotonic() - self._stopping > END_SECONDS:
            for pid in self._children:
                log.warning("process %d does not end, killing it", pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _say(pipe: int) -> None:
    os.write(pipe, b"1")
    os.close(pipe)
