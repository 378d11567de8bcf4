"""Create one environment per peer, because their dependencies conflict with each other and with ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.catalogue import Peer

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".bench" / "peers"
INSTALL_SECONDS = 600


class NotInstalled(Exception):
    """Raised if a peer cannot be installed; the text says why."""


def environment(name: str, peer: Peer, cache: Path = CACHE) -> Path:
    """Return the folder of a peer's commands; install the peer if necessary."""
    folder = cache / name
    wanted = "\n".join(peer.requirements)
    stamp = folder / "installed.txt"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return folder / "bin"
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    _run([sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet", *peer.requirements])
    stamp.write_text(wanted, encoding="utf-8")
    return folder / "bin"


def version(name: str, commands: Path) -> str:
    """Return the installed version."""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    return _run([str(commands / "python"), "-c", code]).strip()


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"{command[0]} took longer than {INSTALL_SECONDS} s") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason was given"]
        raise NotInstalled(lines[-1])
    return done.stdout
