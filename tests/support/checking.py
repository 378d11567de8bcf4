"""Type checkers as processes of their own; neither needs the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 170


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a checker in a folder."""
    environ = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "MYPYPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
