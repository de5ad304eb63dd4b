"""Converts pydantic's errors to messages: the value found, what was expected, and a suggestion."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from enum import Enum
from typing import Any, get_args, get_origin

from pydantic_core import ErrorDetails

from rebalancer.policy.base import UNEXPECTED, Section
from rebalancer.policy.selectors import Selector
from rebalancer.policy.wording import describe_value, format_path, join_alternatives
from rebalancer.yaml_tree import Path, Place

_SIMPLE = re.compile(r"[A-Za-z0-9._*-]{1,40}\Z")
_LABELS = re.compile(r"(?:[A-Za-z0-9._/-]{1,80}==?[A-Za-z0-9._-]{1,63}(?:,(?!\Z)|\Z)){1,5}\Z")
_SELECTOR = "a label selector such as {matchLabels: {app: redis}}"
_EXPECTED = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "int_type": "a whole number",
    "string_type": "text",
    "string_unicode": "text",
}


def get_path(error: ErrorDetails) -> Path:
    """Return the path of an error; pydantic marks the key of a mapping with a last `[key]`."""
    location = error["loc"]
    return location[:-1] if location and location[-1] == "[key]" else location


def explain(error: ErrorDetails, *, place: Place | None, root: type[Section]) -> str:
    """Return the message of an error in a `root`; `place` is None if the file has no value at its path."""
    path, value = get_path(error), error["input"]
    context: dict[str, Any] = error.get("ctx", {})
    suggestion: str | None = None
    match error["type"]:
        case "missing":
            return f"missing; expected {_describe_expected(path, root)}"
        case "extra_forbidden":
            return f"unknown field; {_suggest_field(path, root)}"
        case "enum" | "literal_error":
            return _explain_choice(path, value, place, root)
        case kind if kind == UNEXPECTED:
            expected, suggestion = context["expected"], context["suggestion"]
            if isinstance(value, dict) or error["loc"] != path:  # the path already has the mapping or key
                return f"expected {expected}"
        case "greater_than_equal":
            expected = f"at least {context['ge']}"
        case "less_than_equal":
            expected = f"at most {context['le']}"
        case kind:
            is_selector = _find_section(path, root) is Selector
            expected = _SELECTOR if is_selector else _EXPECTED.get(kind, error["msg"])
            suggestion = _suggest_labels(value, is_selector=is_selector) or _suggest(kind, value)
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    if value is None and _is_optional_section(path, root):
        hint = "; leave the field out for its defaults"
    return f"found {describe_value(value, text=place.text if place else None)}; expected {expected}{hint}"


def _suggest(kind: str, value: object) -> str | None:
    """Return the value in the expected type; None if it is not obvious."""
    if not isinstance(value, str) or not _SIMPLE.match(value):
        return None
    if kind == "tuple_type":
        return f"[{value}]"
    return value if kind == "int_type" and value.isdecimal() else None


def _suggest_labels(value: object, *, is_selector: bool) -> str | None:
    """Return labels written for `kubectl -l`, `app=redis,tier=cache`, as a mapping like in the file."""
    if not isinstance(value, str) or not _LABELS.match(value):
        return None
    labels = f"{{{', '.join(': '.join(re.split('==?', label)) for label in value.split(','))}}}"
    return f"{{matchLabels: {labels}}}" if is_selector else labels


def _explain_choice(path: Path, value: object, place: Place | None, root: type[Section]) -> str:
    names = _list_choices(path, root)
    close = get_close_matches(str(value).lower(), [name.lower() for name in names], n=1)
    hint = next((f"; did you mean {name}?" for name in names if [name.lower()] == close), "")
    return (
        f"found {describe_value(value, text=place.text if place else None)}; expected {join_alternatives(names)}{hint}"
    )


def _list_choices(path: Path, root: type[Section]) -> list[str]:
    """List the choices of the enumeration or literal at a path."""
    annotation = _find_annotation(path, root)
    alternatives = get_args(annotation)
    for candidate in (annotation, *alternatives):
        if isinstance(candidate, type) and issubclass(candidate, Enum):
            return [str(member.value) for member in candidate]
    return [str(value) for value in alternatives]


def _describe_expected(path: Path, root: type[Section]) -> str:
    choices = _list_choices(path, root)
    return (
        f"{path[-1]}: {join_alternatives(choices)}"
        if choices and str not in get_args(_find_annotation(path, root))
        else "a value"
    )


def _is_optional_section(path: Path, root: type[Section]) -> bool:
    """Return whether the path leads to a section that may be left out."""
    if not path or isinstance(path[-1], int) or _find_section(path, root) is None:
        return False
    fields = _get_section(path[:-1], root).model_fields
    return not any(field.is_required() for key, field in fields.items() if path[-1] == (field.alias or key))


def _suggest_field(path: Path, root: type[Section]) -> str:
    """Suggest a field for an unknown one, from anywhere in the document; else list the fields allowed here."""
    name = str(path[-1])
    siblings = {field.alias or key: key for key, field in _get_section(path[:-1], root).model_fields.items()}
    by_lower = {alias.lower(): alias for alias in siblings} | {key.lower(): alias for alias, key in siblings.items()}
    close = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.7)
    if close:
        return f"did you mean {by_lower[close[0]]}?"
    elsewhere = next((path for path in _iterate_fields(root) if str(path[-1]).lower() == name.lower()), None)
    if elsewhere:
        return f"did you mean {format_path(elsewhere)}?"
    return f"known here: {', '.join(siblings)}"


def _iterate_fields(section: type[Section], above: Path = ()) -> Iterator[Path]:
    for key, field in section.model_fields.items():
        path = (*above, field.alias or key)
        yield path
        inner = _unwrap_section(field.annotation)
        if inner is not None:
            yield from _iterate_fields(inner, (*path, 0) if get_origin(field.annotation) is tuple else path)


def _find_annotation(path: Path, root: type[Section]) -> Any:
    """Return the type of the field at a path of aliases and indexes; None if no field has that path."""
    section: type[Section] | None = root
    annotation: Any = root
    for step in path:
        if isinstance(step, int):
            continue
        fields = section.model_fields if section else {}
        annotation = next((field.annotation for key, field in fields.items() if step == (field.alias or key)), None)
        section = _unwrap_section(annotation)
    return annotation


def _find_section(path: Path, root: type[Section]) -> type[Section] | None:
    return _unwrap_section(_find_annotation(path, root))


def _get_section(path: Path, root: type[Section]) -> type[Section]:
    return _find_section(path, root) or root


def _unwrap_section(annotation: Any) -> type[Section] | None:
    """Find the section that a type contains: the type itself, an optional section, or the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((inner for inner in map(_unwrap_section, get_args(annotation)) if inner), None)
