"""Every setting: where it comes from, what it may be, and how a bad one is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from flowfabric.model.ids import Partitions
from flowfabric.server.settings import BadSetting, Settings, load_settings
from flowfabric.storage.resolve import default_file, family, store_url, without_password
from flowfabric.variables import VARIABLES, is_loopback

HOME = {"HOME": "/home/ada"}
SECRET = "ab" * 32


def load(config: str = "", flags: dict[str, str] | None = None, /, **given: str) -> Settings:
    return load_settings(flags, {**HOME, **given}, config)


def test_defaults() -> None:
    settings = load()
    assert settings.listen == ("127.0.0.1", 9090)
    assert settings.lanes == ("default",)
    assert settings.partitions == Partitions(256, 32, 32)
    assert settings.hmac_grace_ms == 86_400_000
    assert settings.max_stream_ops == 64
    assert settings.cors_origins == ()
    assert settings.embedded
    assert settings.local
    assert settings.open_to_anybody
    assert settings.store == str(default_file(HOME))


@pytest.mark.skipif(sys.platform != "linux", reason="each system has its own folder")
def test_the_default_file_is_in_the_data_folder() -> None:
    assert str(default_file(HOME)) == "/home/ada/.local/share/flowfabric/flowfabric.db"
    assert str(default_file({**HOME, "XDG_DATA_HOME": "/data"})) == "/data/flowfabric/flowfabric.db"
    assert default_file({**HOME, "XDG_DATA_HOME": "relative"}) == default_file(HOME)


GOOD: list[tuple[str, str, str, Any]] = [
    ("FF_LISTEN_ADDR", "localhost:80", "listen", ("localhost", 80)),
    ("FF_LISTEN_ADDR", "[::1]:0", "listen", ("::1", 0)),
    ("FF_API_TOKEN", "t0ken", "api_token", "t0ken"),
    ("FF_API_TOKEN", "", "api_token", ""),
    ("FF_ALLOW_UNAUTHENTICATED", "TRUE", "allow_unauthenticated", True),
    ("FF_ALLOW_UNAUTHENTICATED", "yes", "allow_unauthenticated", False),
    ("FF_PUBLIC_URL", "https://flow.example/x/", "public_url", "https://flow.example/x"),
    (
        "FF_CORS_ORIGINS",
        "https://a.example, https://b.example",
        "cors_origins",
        ("https://a.example", "https://b.example"),
    ),
    ("FF_CORS_ORIGINS", "*", "cors_origins", ("*",)),
    ("FF_LANES", " a, b ,,c d", "lanes", ("a", "b", "c d")),
    ("FF_WAITPOINT_HMAC_SECRET", SECRET.upper(), "hmac_secret", SECRET),
    ("FF_WAITPOINT_HMAC_GRACE_MS", "0", "hmac_grace_ms", 0),
    ("FF_FLOW_PARTITIONS", "8", "partitions", Partitions(flow=8)),
    ("FF_BUDGET_PARTITIONS", "8", "partitions", Partitions(budget=8)),
    ("FF_QUOTA_PARTITIONS", "8", "partitions", Partitions(quota=8)),
    ("FF_MAX_CONCURRENT_STREAM_OPS", "7", "max_stream_ops", 7),
    ("FF_MAX_CONCURRENT_TAIL", "9", "max_stream_ops", 9),
    ("FF_MAX_CONCURRENT_SSE", "5", "max_sse", 5),
    ("FF_MAX_CONCURRENT_SSE_PER_TOKEN", "5", "max_sse_per_token", 5),
    ("FF_MAX_CONNECTIONS", "5", "max_connections", 5),
    ("FF_PROCESSES", "3", "processes", 3),
    ("FF_LOG_LEVEL", "DEBUG", "log_level", "debug"),
    ("FF_LOG_FORMAT", "json", "log_format", "json"),
    ("FF_SQLITE_PATH", "/x/y.db", "store", "/x/y.db"),
    ("FF_SQLITE_PATH", "file:name?mode=memory&cache=shared", "store", ":memory:"),
    ("FF_SQLITE_SYNCHRONOUS", "full", "sqlite_synchronous", "FULL"),
    ("FF_STORE", "sqlite:///work.db", "store", "sqlite:///work.db"),
    ("FF_BACKEND", "SQLite", "store", str(default_file(HOME))),
    ("FF_BACKEND", "", "store", str(default_file(HOME))),
    ("FF_DEV_MODE", "0", "store", str(default_file(HOME))),
    ("FF_VALKEY_PATIENCE_S", "5", "valkey_patience_s", 5),
    ("FF_RETENTION_TRIMMER_INTERVAL_S", "0", "collect_seconds", 0.1),
    ("FF_INDEX_RECONCILER_INTERVAL_S", "45", "repair_seconds", 45.0),
]


@pytest.mark.parametrize(("name", "value", "field", "expected"), GOOD)
def test_a_good_value(name: str, value: str, field: str, expected: Any) -> None:
    assert getattr(load(**{name: value}), field) == expected


@pytest.mark.parametrize("blank", [" ", "\t\n", "   "])
def test_a_token_of_blanks_is_refused(blank: str) -> None:
    with pytest.raises(BadSetting, match="FF_API_TOKEN"):
        load(FF_API_TOKEN=blank)
    with pytest.raises(BadSetting, match="FF_API_TOKEN"):
        Settings(api_token=blank).check()


NUMBERS = {
    "u16": ["FF_FLOW_PARTITIONS", "FF_BUDGET_PARTITIONS", "FF_QUOTA_PARTITIONS", "FF_PORT", "FF_PROCESSES"],
    "u32": [
        "FF_MAX_CONCURRENT_STREAM_OPS",
        "FF_MAX_CONCURRENT_TAIL",
        "FF_POSTGRES_POOL_SIZE",
        "FF_SQLITE_POOL_SIZE",
        "FF_MAX_CONNECTIONS",
        "FF_MAX_CONCURRENT_SSE",
        "FF_MAX_CONCURRENT_SSE_PER_TOKEN",
    ],
    "u64": [
        "FF_WAITPOINT_HMAC_GRACE_MS",
        "FF_AGEING_MS",
        *(variable.name for variable in VARIABLES if "_INTERVAL_" in variable.name),
    ],
}


def test_the_intervals_are_all_there() -> None:
    assert sum("_INTERVAL_" in variable.name for variable in VARIABLES) == 17


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in NUMBERS.items() for name in names]
)
@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "99999999999999999999999", "٣", " 1"])
def test_what_is_no_number_is_refused_by_name(kind: str, name: str, value: str) -> None:
    with pytest.raises(BadSetting) as refusal:
        load(**{name: value})
    assert str(refusal.value) == f"invalid value for {name}: expected {kind}, got '{value}'"


@pytest.mark.parametrize(("kind", "name"), [(kind, names[0]) for kind, names in NUMBERS.items()])
def test_numbers_have_a_width(kind: str, name: str) -> None:
    most = 2 ** int(kind[1:]) - 1
    load(**{name: str(most)})
    with pytest.raises(BadSetting, match=f"expected {kind}"):
        load(**{name: str(most + 1)})


@pytest.mark.parametrize(
    "name", [name for kind in ("u16", "u32") for name in NUMBERS[kind] if name != "FF_PORT"]
)
def test_zero_is_refused_where_it_means_nothing(name: str) -> None:
    with pytest.raises(BadSetting, match=f"invalid value for {name}: must be positive"):
        load(**{name: "0"})


BAD = [
    ("FF_LISTEN_ADDR", "9090", "expected host:port"),
    ("FF_LISTEN_ADDR", "localhost:70000", "expected host:port"),
    ("FF_LISTEN_ADDR", "::1:9090", r"\[::1\]"),
    ("FF_BACKEND", "mysql", "expected one of sqlite, postgres, valkey, got 'mysql'"),
    ("FF_BACKEND", "postgres", "FF_BACKEND=postgres requires FF_POSTGRES_URL"),
    ("FF_LANES", " , ", "FF_LANES: name at least one lane"),
    ("FF_LANES", "a,b,a", "FF_LANES: lane 'a' is named twice"),
    ("FF_LANES", "é", "FF_LANES: lane 'é' byte 0"),
    ("FF_LANES", "x" * 65, "FF_LANES: lane 'x+' is 65 bytes"),
    ("FF_CORS_ORIGINS", "", "FF_CORS_ORIGINS"),
    ("FF_CORS_ORIGINS", "https://é", "FF_CORS_ORIGINS: none of its origins"),
    ("FF_PUBLIC_URL", "flow.example", "FF_PUBLIC_URL: expected http"),
    ("FF_WAITPOINT_HMAC_SECRET", "", "FF_WAITPOINT_HMAC_SECRET: must not be empty"),
    ("FF_WAITPOINT_HMAC_SECRET", "abc", "FF_WAITPOINT_HMAC_SECRET: expected an even number of hex digits"),
    ("FF_WAITPOINT_HMAC_SECRET", "zz", "FF_WAITPOINT_HMAC_SECRET: expected"),
    ("FF_LOG_LEVEL", "loud", "FF_LOG_LEVEL: expected one of debug"),
    ("FF_SQLITE_SYNCHRONOUS", "OFF", "FF_SQLITE_SYNCHRONOUS: expected one of"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_a_bad_value_is_refused_by_name(name: str, value: str, message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        load(**{name: value})


def test_a_bad_secret_is_not_shown() -> None:
    with pytest.raises(BadSetting) as refusal:
        load(FF_WAITPOINT_HMAC_SECRET="not-hex-at-all")
    assert "not-hex" not in str(refusal.value)


def test_some_bad_origins_are_dropped_with_a_word() -> None:
    settings = load(FF_CORS_ORIGINS="https://a.example,https://é")
    assert settings.cors_origins == ("https://a.example",)
    assert "invalid=['https://é'] accepted=['https://a.example']" in settings.warnings[0]


def test_the_new_name_wins_over_the_old() -> None:
    assert load(FF_MAX_CONCURRENT_STREAM_OPS="3", FF_MAX_CONCURRENT_TAIL="9").max_stream_ops == 3


@pytest.mark.parametrize("address", ["0.0.0.0:9090", "[::]:9090", ":9090", "flow.example:9090", "10.0.0.1:1"])
def test_others_are_not_let_in_without_a_token(address: str) -> None:
    with pytest.raises(BadSetting) as refusal:
        load(FF_LISTEN_ADDR=address)
    for remedy in ("FF_API_TOKEN", "FF_ALLOW_UNAUTHENTICATED=1", "127.0.0.1"):
        assert remedy in str(refusal.value)
    assert not load(FF_LISTEN_ADDR=address, FF_API_TOKEN="t").open_to_anybody
    assert load(FF_LISTEN_ADDR=address, FF_ALLOW_UNAUTHENTICATED="1").open_to_anybody


@pytest.mark.parametrize(
    ("host", "local"), [("127.9.9.9", True), ("::1", True), ("LOCALHOST", True), ("", False)]
)
def test_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local


@pytest.mark.parametrize("store", ["work.db", "valkey://h"])
def test_no_store_wants_a_secret_of_its_own(store: str) -> None:
    assert not load(FF_STORE=store).hmac_secret
    assert load(FF_STORE=store, FF_WAITPOINT_HMAC_SECRET=SECRET).hmac_secret == SECRET


def test_memory_is_not_shared_between_processes() -> None:
    with pytest.raises(BadSetting, match="FF_PROCESSES"):
        load(FF_STORE=":memory:", FF_PROCESSES="2")


def test_flag_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "ff.toml"
    file.write_text('listen_addr = "127.0.0.1:1"\nlanes = ["a", "b"]\nff_processes = 2\napi_token = "t"\n')
    assert load(str(file)).listen == ("127.0.0.1", 1)
    assert load(str(file)).lanes == ("a", "b")
    assert load(str(file)).processes == 2
    assert load(str(file), FF_LISTEN_ADDR="127.0.0.1:2").listen == ("127.0.0.1", 2)
    flags = {"FF_LISTEN_ADDR": "127.0.0.1:3"}
    assert load(str(file), flags, FF_LISTEN_ADDR="127.0.0.1:2").listen == ("127.0.0.1", 3)
    assert load(FF_CONFIG=str(file)).api_token == "t"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense = 1", "there is no setting 'nonsense'"),
        ("lanes = {a = 1}", "'lanes' must be"),
        ("flow_partitions = 0", "FF_FLOW_PARTITIONS: must be positive"),
        ("x =", "is not TOML"),
    ],
)
def test_a_bad_file_is_explained(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "ff.toml"
    file.write_text(content)
    with pytest.raises(BadSetting, match=message):
        load(str(file))


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="cannot read"):
        load(str(tmp_path / "none.toml"))


def test_secrets_are_not_shown() -> None:
    settings = load(
        FF_STORE="postgres://user:pass-word@h/db", FF_API_TOKEN="to-ken", FF_WAITPOINT_HMAC_SECRET=SECRET
    )
    shown = repr(settings) + str(list(settings.__rich_repr__()))
    assert not any(secret in shown for secret in ("pass-word", "to-ken", SECRET))
    assert without_password("postgres://user:p@h:5/db?x=1") == "postgres://***@h:5/db"
    assert without_password("valkey://h:5/0?password=pass-word") == "valkey://h:5/0"
    assert without_password("valkey://u:pass/word@h:5/0") == "valkey://***@h:5/0"
    assert without_password("valkey://u:pass?word@h:5/0") == "valkey://***"
    assert without_password("work?.db") == "work?.db"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"FF_BACKEND": "valkey"}, "valkey://localhost:6379"),
        ({"FF_BACKEND": "valkey", "FF_HOST": "h", "FF_PORT": "1", "FF_TLS": "1"}, "valkeys://h:1"),
        ({"FF_BACKEND": "valkey", "FF_CLUSTER": "true"}, "valkey+cluster://localhost:6379"),
        ({"FF_BACKEND": "postgres", "FF_POSTGRES_URL": "postgres://h/d"}, "postgres://h/d"),
        ({"FF_BACKEND": "valkey", "FF_STORE": "work.db"}, "work.db"),
    ],
)
def test_which_store_is_meant(environ: dict[str, str], url: str) -> None:
    assert store_url("", environ) == url
    assert store_url("given.db", environ) == "given.db"


def test_families() -> None:
    urls = ("x.db", "postgresql://h", "valkeys://h", "valkeys+cluster://h", "redis://h")
    assert [family(url) for url in urls] == ["sqlite", "postgres", "valkey", "valkey", "redis"]
