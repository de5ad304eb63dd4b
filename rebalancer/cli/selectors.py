"""Label selectors as kubectl takes them after `-l` (`app=web,tier in (a,b),!canary`), and label keys of flags."""

import argparse
import re
from typing import Any

from pydantic import ValidationError

from rebalancer.model.labels import LabelSelector
from rebalancer.policy import Selector, parse_label_key

_PARTS = re.compile(r"(?:[^,()]|\([^()]*\))+")
_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)\Z")
_EQUAL = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<operator>==?|!=)\s*(?P<value>[^\s=!]*)\Z")
_EXISTS = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s=!]+)\Z")


def parse_selector(text: str) -> LabelSelector:
    """Read a selector; an empty one selects everything, as with kubectl. ValueError names the part that is wrong."""
    if not text.strip():
        return LabelSelector()
    parts = [part.strip() for part in _PARTS.findall(text)]
    if ",".join(parts) != ",".join(part.strip() for part in re.split(r",(?![^()]*\))", text)):
        raise ValueError(f"found {text!r}, expected a label selector such as app=web,tier in (a,b),!canary")
    document = {"matchExpressions": [_parse_expression(part) for part in parts]}
    try:
        return Selector.model_validate(document).compiled
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        part = parts[int(first["loc"][1])]
        raise ValueError(f"found {part!r}, {first['msg']}") from None


def _parse_expression(part: str) -> dict[str, Any]:
    """Read one condition into the form of `matchExpressions`."""
    if match := _SET.match(part):
        operator = {"in": "In", "notin": "NotIn"}[match["operator"]]
        return {
            "key": match["key"],
            "operator": operator,
            "values": [value.strip() for value in match["values"].split(",")],
        }
    if match := _EQUAL.match(part):
        operator = "NotIn" if match["operator"] == "!=" else "In"
        return {"key": match["key"], "operator": operator, "values": [match["value"]]}
    if match := _EXISTS.match(part):
        return {"key": match["key"], "operator": "DoesNotExist" if match["absent"] else "Exists"}
    raise ValueError(f"found {part!r}, expected a condition such as app=web, app!=web, app in (a,b), app or !app")


def parse_key(text: str) -> str:
    """Read the label key of a flag; argparse says what is wrong with it."""
    try:
        return parse_label_key(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, {error}") from None
