"""The commands of a page, run as they stand there: only addresses are others, and nothing is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from support import curl

ROOT = Path(__file__).parents[2]


def blocks(page: str, kind: str = "sh", *, under: str = "") -> list[str]:
    """Return the blocks of a page, or those under one heading."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if under:
        text = text.partition(f"\n## {under}\n")[2].partition("\n## ")[0]
    found = re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no such block"
    return found


def shell(script: str, folder: Path, places: Mapping[str, str], *, code: int = 0, **environ: str) -> str:
    """Run commands with other addresses than they name, and return what they print."""
    for written, real in places.items():
        assert written in script, f"{written} is not named in\n{script}"
        script = script.replace(written, real)
    script = re.sub(r"^pip install .*\n", "", script, flags=re.MULTILINE)
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    curl.install(tools)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FF_")}
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), ours["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={
            **ours,
            "PATH": path,
            "COLUMNS": "200",
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == code, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout
