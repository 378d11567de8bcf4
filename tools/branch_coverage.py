"""Hold a folder to its branch coverage: `python -m tools.branch_coverage src/flowfabric/model 95`.

`coverage report --fail-under` mixes lines and branches; here only branches count.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from coverage import Coverage


def measured(folder: str) -> dict[str, Any]:
    """Return what the last run found out about a folder."""
    coverage = Coverage()
    coverage.load()
    with tempfile.TemporaryDirectory() as place:
        outfile = Path(place) / "coverage.json"
        coverage.json_report(outfile=str(outfile), include=[f"{folder}/*"])
        report: dict[str, Any] = json.loads(outfile.read_text(encoding="utf-8"))
    return report


def main(folder: str, least: float) -> int:
    """Say how many branches were taken; return 1 when they are too few."""
    report = measured(folder)
    covered, there = (report["totals"][name] for name in ("covered_branches", "num_branches"))
    percent = 100 * covered / there
    print(f"branches of {folder}: {covered} of {there}, {percent:.1f} %; {least:g} % are needed")
    if percent >= least:
        return 0
    for name, file in report["files"].items():
        for start, end in file["missing_branches"]:
            print(f"  {name}: never from line {start} to {'the end' if end < 0 else end}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
