"""Encoding and decoding the results of steps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flowfabric.codecs import Codec, DecodeFault, EncodeFault, decode_value, encode_value
from flowfabric.codecs.signature import hints_of
from flowfabric.model.limits import MAX_STEP_BYTES
from flowfabric.worker.faults import StepResultMismatch


def write_result(name: str, value: Any, codec: Codec) -> tuple[bytes, str]:
    """Encode the result of a step; the error names the step."""
    try:
        data, encoding = encode_value(value, codec)
    except EncodeFault as fault:
        raise EncodeFault(f"the result of step {name!r}: {fault}") from fault
    if len(data) > MAX_STEP_BYTES:
        raise EncodeFault(
            f"the result of step {name!r} is {len(data)} bytes long, and at most {MAX_STEP_BYTES} are kept: "
            "put it elsewhere, and return where it is"
        )
    return data, encoding


def read_result(name: str, data: bytes, encoding: str, fn: Callable[..., Any], codec: Codec) -> Any:
    """Decode the stored result of a step as the type that its function returns now."""
    try:
        return decode_value(data, encoding, _returned_by(fn), codec)
    except DecodeFault as fault:
        raise StepResultMismatch(name, str(fault)) from fault


@functools.lru_cache(maxsize=1_024)
def _returned_by(fn: Callable[..., Any]) -> Any:
    """Return the annotated return type of a function."""
    try:
        return hints_of(fn).get("return", Any)
    except TypeError:  # no readable annotations: any value fits
        return Any
