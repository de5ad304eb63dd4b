"""Errors of objects that the API server would refuse."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import TypeVar

from rebalancer.model.quantities import QuantityError

Choice = TypeVar("Choice", bound=StrEnum)


class MalformedObject(ValueError):  # noqa: N818  # it names the object's state, as callers read it
    """A field of an object has a value that Kubernetes does not allow; the message names field and value."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


def parse_choice(choices: type[Choice], value: str, field: str) -> Choice:
    """Convert text to one of an enum's values, or raise MalformedObject that lists them."""
    by_value: Mapping[str, Choice] = _by_value(choices)
    try:
        return by_value[value]
    except KeyError:
        raise MalformedObject(field, f"{value!r} is not one of {', '.join(choices)}") from None


@cache
def _by_value(choices: type[Choice]) -> Mapping[str, Choice]:
    """Return the members of an enum by their text, because a look-up takes a third of the time of calling the enum."""
    return {choice.value: choice for choice in choices}


def parse_amount(parse: Callable[[str], int], value: str | float, field: str) -> int:
    """Convert a quantity, as text or number, to whole units with `parse`; raise MalformedObject if it is invalid."""
    try:
        number = parse(str(value))
    except QuantityError as error:
        raise MalformedObject(field, str(error)) from None
    if number < 0:
        raise MalformedObject(field, f"{value!r} is negative; expected 0 or more")
    return number
