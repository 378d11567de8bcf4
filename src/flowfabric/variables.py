"""The variables that a server understands: names, forms, defaults and meanings. The guide's table is made of these."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.resolve import BACKENDS

U16: Final = 2**16 - 1
U32: Final = 2**32 - 1
U64: Final = 2**64 - 1
_WIDTHS: Final = {"u16": U16, "u32": U32, "u64": U64}
_HEX: Final = re.compile(r"([0-9a-fA-F]{2})+")
_ORIGIN: Final = re.compile(r"[\x21-\x7e]+")


class BadSetting(ValueError):
    """A setting that cannot be used; the message names it."""


class Variable(Struct, frozen=True):
    """One setting."""

    name: str
    field: str
    read: Callable[[str, str], Any]
    default: Any
    meaning: str
    secret: bool = False
    used: bool = True
    """Whether it changes anything here; the others are understood, checked and left alone."""


def text(_: str, value: str) -> str:
    """Take text as it is."""
    return value


def api_token(name: str, value: str) -> str:
    """Read the administrator's token; one of blanks is a mistake, not a secret."""
    if value and not value.strip():
        raise BadSetting(f"invalid value for {name}: it holds only blanks; give a token, or leave it out")
    return value


def flag(_: str, value: str) -> bool:
    """Read a switch: `1` and `true` turn it on, everything else off."""
    return value.strip().lower() in {"1", "true"}


def number(kind: str, *, positive: bool = False) -> Callable[[str, str], int]:
    """Read an unsigned number of a width."""

    def read(name: str, value: str) -> int:
        if not (value.isascii() and value.isdigit()) or len(value) > 20 or int(value) > _WIDTHS[kind]:
            raise BadSetting(f"invalid value for {name}: expected {kind}, got '{value}'")
        if positive and not int(value):
            raise BadSetting(f"invalid value for {name}: must be positive, got '{value}'")
        return int(value)

    return read


def secret_hex(name: str, value: str) -> str:
    """Read a secret in hex; the refusal does not show it. Empty is as good as none."""
    if value and not _HEX.fullmatch(value):
        raise BadSetting(f"invalid value for {name}: expected an even number of hex digits (64 are advised)")
    return value.lower()


def backend(name: str, value: str) -> str:
    """Read the family of stores."""
    chosen = value.strip().lower()
    if chosen not in {"", *BACKENDS}:
        raise BadSetting(f"invalid value for {name}: expected one of {', '.join(BACKENDS)}, got '{value}'")
    return chosen


def address(name: str, value: str) -> tuple[str, int]:
    """Read host and port; an IPv6 address stands in brackets."""
    host, colon, port = value.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadSetting(f"invalid value for {name}: write an IPv6 address as [::1]:9090, got '{value}'")
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > U16:
        hint = f"; write 127.0.0.1:{value.strip()}" if value.strip().isdigit() else ""
        raise BadSetting(f"invalid value for {name}: expected host:port, got '{value}'{hint}")
    return host, int(port)


def names(value: str) -> list[str]:
    """Take a list apart at its commas."""
    return [part for part in map(str.strip, value.split(",")) if part]


def lanes(name: str, value: str) -> tuple[str, ...]:
    """Read lanes; each must be one, and none may come twice."""
    given = names(value)
    if not given:
        raise BadSetting(f"invalid value for {name}: name at least one lane")
    for lane in given:
        try:
            checks.lane(lane)
        except FlowFabricError as error:
            raise BadSetting(f"invalid value for {name}: lane '{lane}' {error.text}") from error
        if given.count(lane) > 1:
            raise BadSetting(f"invalid value for {name}: lane '{lane}' is named twice")
    return tuple(given)


def origins(name: str, value: str) -> tuple[str, ...]:
    """Read the origins that browsers may call from; those that no header can hold come back as they are."""
    given = names(value)
    if not given:
        raise BadSetting(f"invalid value for {name}: name an origin or *, or leave it out")
    if not any(map(usable_origin, given)):
        raise BadSetting(f"invalid value for {name}: none of its origins can be used: {given}")
    return tuple(given)


def usable_origin(origin: str) -> bool:
    """Whether a header can hold it."""
    return _ORIGIN.fullmatch(origin) is not None


def public_url(name: str, value: str) -> str:
    """Read the address under which people reach the server."""
    parts = urlsplit(value)
    if value and (parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment):
        raise BadSetting(f"invalid value for {name}: expected http(s)://host[/path], got '{value}'")
    return value.rstrip("/")


def one_of(*allowed: str) -> Callable[[str, str], str]:
    """Read one of some words, in any case."""

    def read(name: str, value: str) -> str:
        for word in allowed:
            if word.lower() == value.strip().lower():
                return word
        raise BadSetting(f"invalid value for {name}: expected one of {', '.join(allowed)}, got '{value}'")

    return read


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; names other than `localhost` are not trusted to be."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(host: str, port: int) -> str:
    """Write the address of a listening socket so that it can be opened; of all addresses it is this machine's own."""
    own = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - it is compared
    return f"http://[{own}]:{port}" if ":" in own else f"http://{own}:{port}"


def _interval(name: str, default: int, meaning: str) -> Variable:
    field = name.removeprefix("FF_").lower()
    return Variable(name, field, number("u64"), default, meaning, used=False)


POSITIVE_U16: Final = number("u16", positive=True)
POSITIVE_U32: Final = number("u32", positive=True)
UNSET: Final = 0

VARIABLES: Final[tuple[Variable, ...]] = (
    Variable("FF_STORE", "store", text, "", "URL or path of the store; wins over `FF_BACKEND`", secret=True),
    Variable("FF_LISTEN_ADDR", "listen", address, ("127.0.0.1", 9090), "where the server listens"),
    Variable(
        "FF_API_TOKEN",
        "api_token",
        api_token,
        "",
        "the administrator's bearer token; empty: none",
        secret=True,
    ),
    Variable(
        "FF_ALLOW_UNAUTHENTICATED",
        "allow_unauthenticated",
        flag,
        False,
        "allows listening beyond this machine without a token",
    ),
    Variable(
        "FF_PUBLIC_URL",
        "public_url",
        public_url,
        "",
        "where links of the server lead; unset: where it listens",
    ),
    Variable(
        "FF_CORS_ORIGINS", "cors_origins", origins, (), "origins whose pages may call; `*`: all; unset: none"
    ),
    Variable("FF_LANES", "lanes", lanes, ("default",), "lanes that are there from the start"),
    Variable(
        "FF_WAITPOINT_HMAC_SECRET",
        "hmac_secret",
        secret_hex,
        "",
        "signs waitpoint tokens in a new store; unset: a random one is made and kept there",
        secret=True,
    ),
    Variable(
        "FF_WAITPOINT_HMAC_GRACE_MS",
        "hmac_grace_ms",
        number("u64"),
        86_400_000,
        "how long tokens of a replaced secret stay valid",
    ),
    Variable("FF_FLOW_PARTITIONS", "flow_partitions", POSITIVE_U16, 256, "fixed for the life of the data"),
    Variable("FF_BUDGET_PARTITIONS", "budget_partitions", POSITIVE_U16, 32, "fixed for the life of the data"),
    Variable("FF_QUOTA_PARTITIONS", "quota_partitions", POSITIVE_U16, 32, "fixed for the life of the data"),
    Variable(
        "FF_MAX_CONCURRENT_STREAM_OPS",
        "max_stream_ops",
        POSITIVE_U32,
        64,
        "reads and tails of streams at one time",
    ),
    Variable(
        "FF_MAX_CONCURRENT_TAIL",
        "max_tail",
        POSITIVE_U32,
        UNSET,
        "older name of the one above, used when that is unset",
    ),
    Variable("FF_MAX_CONCURRENT_SSE", "max_sse", POSITIVE_U32, 10_000, "live feeds at one time"),
    Variable(
        "FF_MAX_CONCURRENT_SSE_PER_TOKEN",
        "max_sse_per_token",
        POSITIVE_U32,
        2_000,
        "live feeds of one token at one time",
    ),
    Variable(
        "FF_MAX_CONNECTIONS", "max_connections", POSITIVE_U32, 16_384, "connections at one time, per process"
    ),
    Variable("FF_PROCESSES", "processes", POSITIVE_U16, 1, "processes that share the port"),
    Variable(
        "FF_LOG_LEVEL",
        "log_level",
        one_of("debug", "info", "warning", "error"),
        "info",
        "what the log tells; audit lines are always there",
    ),
    Variable(
        "FF_LOG_FORMAT", "log_format", one_of("text", "json"), "text", "how a line of the log is written"
    ),
    Variable(
        "FF_BACKEND", "backend", backend, "", "`sqlite`, `postgres` or `valkey`, when `FF_STORE` is unset"
    ),
    Variable("FF_SQLITE_PATH", "sqlite_path", text, "", "file of the embedded store"),
    Variable(
        "FF_SQLITE_SYNCHRONOUS",
        "sqlite_synchronous",
        one_of("NORMAL", "FULL"),
        "NORMAL",
        "`FULL` survives a loss of power too",
    ),
    Variable(
        "FF_SQLITE_POOL_SIZE",
        "sqlite_pool_size",
        POSITIVE_U32,
        4,
        "the embedded store sizes itself",
        used=False,
    ),
    Variable("FF_POSTGRES_URL", "postgres_url", text, "", "address of Postgres", secret=True),
    Variable(
        "FF_POSTGRES_POOL_SIZE", "postgres_pool_size", POSITIVE_U32, 10, "connections to Postgres", used=False
    ),
    Variable("FF_HOST", "host", text, "localhost", "host of Valkey"),
    Variable("FF_PORT", "port", number("u16"), 6379, "port of Valkey"),
    Variable("FF_TLS", "tls", flag, False, "TLS to Valkey"),
    Variable("FF_CLUSTER", "cluster", flag, False, "Valkey is a cluster"),
    Variable(
        "FF_VALKEY_WAIT",
        "valkey_wait",
        number("u16"),
        0,
        "replicas of Valkey that must have a change before it is answered",
    ),
    Variable(
        "FF_VALKEY_PATIENCE_S",
        "valkey_patience_s",
        number("u16"),
        60,
        "how long a start waits for a Valkey that cannot be reached or is loading its data",
    ),
    Variable("FF_DEV_MODE", "dev_mode", text, "", "nothing: the embedded store is for everybody", used=False),
    Variable("FF_AGEING_MS", "ageing_ms", number("u64"), 60_000, "comes with fair scheduling", used=False),
    Variable(
        "FF_RETENTION_TRIMMER_INTERVAL_S",
        "retention_trimmer_interval_s",
        number("u64"),
        60,
        "how often expired rows are removed",
    ),
    Variable(
        "FF_INDEX_RECONCILER_INTERVAL_S",
        "index_reconciler_interval_s",
        number("u64"),
        3600,
        "how often indexes are compared with records",
    ),
    _interval("FF_LEASE_EXPIRY_INTERVAL_MS", 1500, "timers act when the time comes"),
    _interval("FF_DELAYED_PROMOTER_INTERVAL_MS", 750, "timers act when the time comes"),
    _interval("FF_ATTEMPT_TIMEOUT_INTERVAL_S", 2, "timers act when the time comes"),
    _interval("FF_SUSPENSION_TIMEOUT_INTERVAL_S", 2, "timers act when the time comes"),
    _interval("FF_PENDING_WP_EXPIRY_INTERVAL_S", 5, "timers act when the time comes"),
    _interval("FF_EXECUTION_DEADLINE_INTERVAL_S", 5, "timers act when the time comes"),
    _interval("FF_BUDGET_RESET_INTERVAL_S", 15, "decided by the operation itself"),
    _interval("FF_BUDGET_RECONCILER_INTERVAL_S", 30, "decided by the operation itself"),
    _interval("FF_QUOTA_RECONCILER_INTERVAL_S", 30, "decided by the operation itself"),
    _interval("FF_UNBLOCK_INTERVAL_S", 5, "decided by the operation itself"),
    _interval("FF_DEPENDENCY_RECONCILER_INTERVAL_S", 15, "decided by the operation itself"),
    _interval("FF_FLOW_PROJECTOR_INTERVAL_S", 15, "decided by the operation itself"),
    _interval("FF_CANCEL_RECONCILER_INTERVAL_S", 15, "decided by the operation itself"),
    _interval("FF_EDGE_CANCEL_DISPATCHER_INTERVAL_S", 1, "decided by the operation itself"),
    _interval("FF_EDGE_CANCEL_RECONCILER_INTERVAL_S", 10, "decided by the operation itself"),
)
"""Every variable. Of the intervals only those of clean-up and repair mean anything here."""

BY_NAME: Final = {variable.name: variable for variable in VARIABLES}


def value_of(name: str, environ: Mapping[str, str]) -> Any:
    """Read one variable from the environment."""
    variable = BY_NAME[name]
    return variable.read(name, environ[name]) if name in environ else variable.default
