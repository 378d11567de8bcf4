"""What a server is told: flags, then the environment, then a file, then defaults.

Every variable of `flowfabric.variables` is read and checked, and a bad value is refused by name. Of the scanner
intervals two mean something here: `FF_RETENTION_TRIMMER_INTERVAL_S` (removal of what has expired) and
`FF_INDEX_RECONCILER_INTERVAL_S` (comparison of indexes and records). What else other servers scan for is decided by
the operations themselves or fired by timers at its time; those intervals are checked and left alone.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import Partitions
from flowfabric.model.redaction import hide, shown, shown_text
from flowfabric.model.tokens import SEED_SECRET_LENGTH
from flowfabric.storage.resolve import EMBEDDED, family, store_url, without_password
from flowfabric.variables import (
    BY_NAME,
    VARIABLES,
    BadSetting,
    Variable,
    api_token,
    is_loopback,
    usable_origin,
)

CONFIG: Final = "FF_CONFIG"
HMAC_SECRET: Final = "FF_WAITPOINT_HMAC_SECRET"  # noqa: S105 - the name of a variable
LEAST_SECONDS: Final = 0.1
"""No housekeeping runs more often than this, whatever was asked for."""

__all__ = ["BadSetting", "Settings", "load_settings"]


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that a server is told; `repr` shows no secrets."""

    store: str = ":memory:"
    listen: tuple[str, int] = ("127.0.0.1", 9090)
    api_token: str = ""
    allow_unauthenticated: bool = False
    public_url: str = ""
    cors_origins: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ("default",)
    hmac_secret: str = ""
    hmac_grace_ms: int = 86_400_000
    partitions: Partitions = Partitions()
    max_stream_ops: int = 64
    max_sse: int = 10_000
    max_sse_per_token: int = 2_000
    max_connections: int = 16_384
    processes: int = 1
    log_level: str = "info"
    log_format: str = "text"
    sqlite_synchronous: str = "NORMAL"
    valkey_wait: int = 0
    valkey_patience_s: int = 60
    retention_trimmer_interval_s: int = 60
    index_reconciler_interval_s: int = 3600
    warnings: tuple[str, ...] = ()
    """What the log shall say about the settings themselves."""

    def __repr__(self) -> str:
        return shown_text(self, store=without_password, api_token=hide, hmac_secret=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, store=without_password, api_token=hide, hmac_secret=hide)

    @property
    def listen_text(self) -> str:
        """The address as people write it."""
        host, port = self.listen
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def open_to_anybody(self) -> bool:
        """Whether requests need no token."""
        return not self.api_token

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.listen[0])

    @property
    def embedded(self) -> bool:
        """Whether the store is the embedded one."""
        return family(self.store) == EMBEDDED

    @property
    def collect_seconds(self) -> float:
        """How often expired rows are removed."""
        return max(LEAST_SECONDS, float(self.retention_trimmer_interval_s))

    @property
    def repair_seconds(self) -> float:
        """How often indexes are compared with records."""
        return max(LEAST_SECONDS, float(self.index_reconciler_interval_s))

    def check(self) -> None:
        """Refuse what does not go together."""
        api_token("FF_API_TOKEN", self.api_token)
        if self.open_to_anybody and not self.local and not self.allow_unauthenticated:
            raise BadSetting(
                f"FF_LISTEN_ADDR: refusing to listen on {self.listen_text} without a token; set FF_API_TOKEN, "
                "listen on 127.0.0.1, or set FF_ALLOW_UNAUTHENTICATED=1"
            )
        if self.processes > 1 and self.embedded and ":memory:" in self.store:
            raise BadSetting("FF_PROCESSES: processes cannot share a store in memory; name a file")


def load_settings(
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    config: str = "",
) -> Settings:
    """Read the settings; `flags` are variables by name that win over the environment."""
    known = os.environ if environ is None else environ
    path = config or known.get(CONFIG, "")
    given = {**(read_file(path) if path else {}), **_ours(known), **(flags or {})}
    values = {variable.field: _value(variable, given) for variable in VARIABLES}
    if "FF_WAITPOINT_HMAC_SECRET" in given and not values["hmac_secret"]:
        raise BadSetting(f"invalid value for {HMAC_SECRET}: must not be empty")
    settings = _settings(values, given, known)
    settings.check()
    return settings


def _ours(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in BY_NAME if name in environ}


def _value(variable: Variable, given: Mapping[str, str]) -> Any:
    text = given.get(variable.name)
    return variable.default if text is None else variable.read(variable.name, text)


def _settings(values: dict[str, Any], given: Mapping[str, str], environ: Mapping[str, str]) -> Settings:
    plain = {name: values[name] for name in Settings.__struct_fields__ if name in values}
    # Where the data folder lies is known to the environment alone, where the store lies to all sources.
    places = {name: environ[name] for name in ("HOME", "LOCALAPPDATA", "XDG_DATA_HOME") if name in environ}
    try:
        plain["store"] = store_url("", {**places, **given})
    except FlowFabricError as error:
        raise BadSetting(error.text) from error
    if "FF_MAX_CONCURRENT_STREAM_OPS" not in given and values["max_tail"]:
        plain["max_stream_ops"] = values["max_tail"]
    plain["cors_origins"] = tuple(filter(usable_origin, values["cors_origins"]))
    plain["partitions"] = Partitions(
        values["flow_partitions"], values["budget_partitions"], values["quota_partitions"]
    )
    return Settings(**plain, warnings=tuple(_warnings(values, plain)))


def _warnings(values: dict[str, Any], plain: dict[str, Any]) -> Iterator[str]:
    dropped = [origin for origin in values["cors_origins"] if not usable_origin(origin)]
    if dropped:
        yield f"FF_CORS_ORIGINS: dropped invalid={dropped} accepted={list(plain['cors_origins'])}"
    if values["hmac_secret"] and len(values["hmac_secret"]) != SEED_SECRET_LENGTH:
        yield f"{HMAC_SECRET} should have {SEED_SECRET_LENGTH} hex digits"


def read_file(path: str) -> dict[str, str]:
    """Read settings from TOML: keys are the names of variables in lower case, with or without `ff_`."""
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"cannot read {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{path} is not TOML: {error}") from error
    found: dict[str, str] = {}
    for key, value in content.items():
        name = "FF_" + key.upper().removeprefix("FF_")
        if name not in BY_NAME:
            raise BadSetting(f"{path}: there is no setting '{key}'")
        found[name] = _as_text(path, key, value)
    return found


def _as_text(path: str, key: str, value: Any) -> str:
    """Write a value as a variable would hold it, so that both are read by the same rules."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    raise BadSetting(f"{path}: '{key}' must be text, a number, true, false or a list of texts")
