"""What all parts of a policy share: the strict, immutable base model, and the error that refuses a value."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

_Made = TypeVar("_Made")

UNEXPECTED = "unexpected_value"
"""The type of the errors made by `unexpected`; their context holds `expected` and `suggestion`."""


class Section(BaseModel):
    """A mapping of the policy file: snake_case in Python, camelCase in the file.

    Python code builds sections by attribute names; the loader allows the file's names only, so that each setting has
    one spelling there.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        validate_default=False,
        use_attribute_docstrings=True,
    )


def unexpected(expected: str, *, suggestion: str | None = None) -> PydanticCustomError:
    """Make the error that refuses a value.

    `expected` continues "expected …"; `suggestion` is the value that was probably meant.
    """
    return PydanticCustomError(
        UNEXPECTED, "expected {expected}", {"expected": expected, "suggestion": suggestion or ""}
    )


def read_value(
    value: object,
    made: type[_Made],
    of: Callable[[Any], _Made],
    *,
    accepts: type | tuple[type, ...],
    expected: str,
    meant: Callable[[object], str | None],
) -> _Made:
    """Convert a value of a file with `of`, or refuse it; a value that already has the type `made` is returned as it is.

    `expected` is the message for values whose type is not in `accepts` (a bool never is); for the others it is the
    ValueError of `of`. `meant` suggests a valid value for a refused one, None if there is none.
    """
    if isinstance(value, made):
        return value
    if isinstance(value, bool) or not isinstance(value, accepts):
        raise unexpected(expected, suggestion=meant(value))
    try:
        return of(value)
    except ValueError as error:
        raise unexpected(str(error).removeprefix("expected "), suggestion=meant(value)) from None


def read_off(value: object) -> object:
    """Return Off for false, because YAML 1.1 reads an unquoted Off as false."""
    return "Off" if value is False else value
