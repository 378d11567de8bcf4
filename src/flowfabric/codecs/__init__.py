"""Encoding values, binding arguments to parameters, and parsing durations."""

from flowfabric.codecs.durations import Duration, millis, seconds
from flowfabric.codecs.signature import Signature
from flowfabric.codecs.values import (
    BYTES,
    JSON,
    Codec,
    DecodeFault,
    EncodeFault,
    JsonCodec,
    decode_value,
    encode_value,
)

__all__ = [
    "BYTES",
    "JSON",
    "Codec",
    "DecodeFault",
    "Duration",
    "EncodeFault",
    "JsonCodec",
    "Signature",
    "decode_value",
    "encode_value",
    "millis",
    "seconds",
]
