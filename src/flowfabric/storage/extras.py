"""Optional dependencies: the command that installs one of the package's extras."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

PACKAGE = "flowfabric"
CHECKOUT = Path(__file__).parents[3]
"""The root of the clone that this module lies in, if it lies in one."""


def install_command(extra: str) -> str:
    """Return the `pip install` command for an extra, from where this package itself was installed."""
    return _command(extra, _origin())


def _command(extra: str, origin: str) -> str:
    """Build the command from the contents of `direct_url.json` (PEP 610), which is empty for a package index."""
    told = json.loads(origin) if origin else {}
    url, folder = told.get("url", ""), told.get("dir_info")
    if folder is not None:
        path = url2pathname(unquote(urlsplit(url).path))
        return f"pip install {'-e ' if folder.get('editable') else ''}'{path}[{extra}]'"
    version_control = told.get("vcs_info")
    if version_control is not None:
        return f"pip install '{PACKAGE}[{extra}] @ {version_control['vcs']}+{url}'"
    if url:
        return f"pip install '{PACKAGE}[{extra}] @ {url}'"
    return f"pip install '{PACKAGE}[{extra}]'"


@cache
def _origin() -> str:
    try:
        return distribution(PACKAGE).read_text("direct_url.json") or ""
    except PackageNotFoundError:  # run from its sources, through PYTHONPATH
        if (CHECKOUT / "pyproject.toml").exists():
            return json.dumps({"url": CHECKOUT.as_uri(), "dir_info": {"editable": True}})
        return ""
