"""Decodes the answer of Prometheus to an instant query (`/api/v1/query` of its HTTP API).

Only a complete vector is accepted: with warnings, data may be missing, and a scalar is never empty.
"""

from typing import Any

import msgspec

from rebalancer.admission.guards import Vector
from rebalancer.admission.pause import to_one_line

_OK = 200


class UnusableAnswerError(ValueError):
    """The answer does not answer the query; the message says why, in one line."""


class _Sample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []


def decode_vector(code: int, body: bytes) -> Vector:
    """Return the vector of an answer with this HTTP status; UnusableAnswerError if it has none."""
    answer = _decode(body, _Answer)
    if code != _OK or (answer is not None and answer.status != "success"):
        said = answer.error if answer is not None else ""
        raise UnusableAnswerError(f"Prometheus answered {code}{f': {to_one_line(said)}' if said else ''}")
    if answer is None or answer.data is None:
        raise UnusableAnswerError("the answer is not that of Prometheus' HTTP API")
    if answer.warnings:
        raise UnusableAnswerError(f"the answer may be partial: {to_one_line(answer.warnings[0])}")
    kind = answer.data.result_type
    if kind != "vector":
        raise UnusableAnswerError(f"the result is a {to_one_line(kind)}; expected a vector")
    samples = _decode(answer.data.result, list[_Sample])
    if samples is None:
        raise UnusableAnswerError("the samples of the answer cannot be read")
    return Vector(len(samples), _describe(samples[0]) if samples else "")


def _decode(body: bytes | msgspec.Raw, kind: Any) -> Any:
    """Decode JSON, or return None where it is something else."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _describe(sample: _Sample) -> str:
    """Write a sample as Prometheus does: `{code="500"} 7.2`."""
    labels = ", ".join(f'{name}="{value}"' for name, value in sorted(sample.metric.items()) if name != "__name__")
    return to_one_line(f"{sample.metric.get('__name__', '')}{{{labels}}} {sample.value[1]}")
