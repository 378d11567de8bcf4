"""As much of curl as the guides use, for machines that have none."""

from __future__ import annotations

import argparse
import http.client
import stat
import sys
from pathlib import Path
from urllib.parse import urlsplit


def install(folder: Path) -> None:
    """Put a program of that name into a folder."""
    program = folder / "curl"
    program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text('utf-8')}", "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def main() -> None:
    """Send one request and write down the answer as it comes."""
    known = argparse.ArgumentParser()
    for switch in (("--silent", "-s"), ("--show-error",), ("--globoff",), ("--no-buffer",)):
        known.add_argument(*switch, action="store_true")
    known.add_argument("--header", "-H", action="append", default=[])
    for option in (("--data", "-d"), ("--request", "-X"), ("--output",), ("--write-out",)):
        known.add_argument(*option, default="")
    known.add_argument("url")
    asked = known.parse_args()
    parts = urlsplit(asked.url if "://" in asked.url else f"http://{asked.url}")
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=40)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    headers = dict(header.split(": ", 1) for header in asked.header)
    connection.request(
        asked.request or ("POST" if asked.data else "GET"), target, asked.data.encode() or None, headers
    )
    answer = connection.getresponse()
    with open(asked.output or sys.stdout.fileno(), "wb", closefd=bool(asked.output)) as out:
        while chunk := answer.read1(65_536):
            out.write(chunk)
            out.flush()
    sys.stdout.write(asked.write_out.replace("%{http_code}", str(answer.status)).replace("\\n", "\n"))


if __name__ == "__main__":
    main()
