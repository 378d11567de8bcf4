"""Find out which store to open, for the server, the command line and programs alike.

The given URL, else `FF_STORE`, else `FF_BACKEND` and the variables that go with it, else a SQLite file in the user's
data folder.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from flowfabric.model.errors import invalid

BACKENDS: Final = ("sqlite", "postgres", "valkey")
EMBEDDED: Final = "sqlite"
VALKEY: Final = ("valkey", "valkeys", "valkey+cluster", "valkeys+cluster")
"""Every scheme of its URLs: alone or a cluster, in the clear or through TLS."""
MEMORY: Final = ":memory:"
_TRUE: Final = frozenset({"1", "true"})
_PRIVATE: Final = 0o700


def store_url(given: str = "", environ: Mapping[str, str] | None = None) -> str:
    """Return the URL or path of the store to open."""
    known = os.environ if environ is None else environ
    url = given or known.get("FF_STORE", "")
    if url:
        return url
    backend = known.get("FF_BACKEND", "").strip().lower()
    path = known.get("FF_SQLITE_PATH", "")
    if backend in {"", EMBEDDED}:
        return sqlite_path(path) if path else str(default_file(known))
    if backend == "postgres":
        if not known.get("FF_POSTGRES_URL"):
            raise invalid("FF_POSTGRES_URL", "FF_BACKEND=postgres requires FF_POSTGRES_URL")
        return known["FF_POSTGRES_URL"]
    if backend == "valkey":
        return _valkey(known)
    raise invalid("FF_BACKEND", f"must be one of {', '.join(BACKENDS)}, got '{backend}'")


def sqlite_path(text: str) -> str:
    """Return the path of a plain path or a `file:` URI."""
    if not text.startswith("file:"):
        return text
    name, _, query = text.removeprefix("file:").partition("?")
    return MEMORY if "mode=memory" in query.split("&") else name


def sqlite_parts(url: str) -> tuple[str, dict[str, str]]:
    """Split `sqlite:///work.db?synchronous=FULL` into path and options; a text that is no URL is a path."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url, {}
    place, _, query = rest.partition("?")
    if scheme != EMBEDDED or (place != MEMORY and not re.match("/.", place)):
        raise invalid("url", "write sqlite:///relative.db, sqlite:////absolute.db or sqlite://:memory:")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(options.keys() - {"synchronous"}):
        raise invalid("url", f"there is no option {unknown[0]}; there is synchronous")
    # One slash ends the empty host name, the rest is the path.
    return place if place == MEMORY else place[1:], {name: text.upper() for name, text in options.items()}


def family(url: str) -> str:
    """Return the kind of store that a URL opens; a plain path opens SQLite."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        return EMBEDDED
    return {"postgresql": "postgres"}.get(scheme, "valkey" if scheme in VALKEY else scheme)


def without_password(url: str) -> str:
    """Return a URL for logs: without user, password and options, which may hold a password too."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == EMBEDDED:
        return url
    place = rest.partition("?")[0]
    if "@" in rest and "@" not in place:
        return f"{scheme}://***"  # a password that should have been escaped
    _, user, host = place.rpartition("@")
    return f"{scheme}://{'***@' if user else ''}{host}"


def default_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the SQLite file that is used by default."""
    return _data_folder(os.environ if environ is None else environ) / "flowfabric" / "flowfabric.db"


def make_folder(url: str, environ: Mapping[str, str] | None = None) -> None:
    """Create the folder of the default file, readable by its owner only; users create other folders themselves."""
    path = default_file(environ)
    if url == str(path):
        path.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)


def _data_folder(environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("HOME") or Path.home())
    if sys.platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return Path(local) if local else home / "AppData" / "Local"
    chosen = environ.get("XDG_DATA_HOME", "")
    if chosen and Path(chosen).is_absolute():
        return Path(chosen)
    return home / "Library" / "Application Support" if sys.platform == "darwin" else home / ".local" / "share"


def _valkey(environ: Mapping[str, str]) -> str:
    secure = environ.get("FF_TLS", "").lower() in _TRUE
    spread = environ.get("FF_CLUSTER", "").lower() in _TRUE
    host = environ.get("FF_HOST") or "localhost"
    port = environ.get("FF_PORT") or "6379"
    return f"valkey{'s' if secure else ''}{'+cluster' if spread else ''}://{host}:{port}"
