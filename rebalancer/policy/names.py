"""Names that a policy refers to: namespaces by globs, owners by kind, priority classes, the scheduler, files."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from rebalancer.policy.base import Section, unexpected

_GLOB = r"^[a-z0-9*?-]{1,253}$"
_KIND = r"[A-Z][A-Za-z0-9]{0,62}"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_OWNER = rf"^(?:ReplicaSet|StatefulSet|ReplicationController|{_KIND}(?:\.{_LABEL})+)$"
_NO_OWNER = r"^(?:(?:DaemonSet|Node)(?:\..*)?|Deployment(?:\.apps)?)$"
_PRIORITY_CLASS = rf"^(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*$"
_TEXT = r"^[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$"

_BUILT_IN = {"ReplicaSet": "apps", "StatefulSet": "apps", "ReplicationController": ""}
_NEVER_MOVED = {"DaemonSet", "Node"}
_KNOWN_GROUPS = {"Deployment": "apps", "DaemonSet": "apps", "Job": "batch", "CronJob": "batch"}
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True)
class Owner:
    """A kind of owner whose pods may be moved; `group` is "" for the core group."""

    kind: str
    group: str

    @classmethod
    def of(cls, written: str) -> Self:
        """Read `ReplicaSet` or `CloneSet.apps.kruise.io`; ValueError says what was expected."""
        kind, dot, group = written.partition(".")
        built_in = _BUILT_IN.get(kind)
        if built_in is not None and group in {built_in, ""} and not (dot and not group):
            return cls(kind, built_in)
        if kind in _NEVER_MOVED:  # of other groups too: Kruise has a DaemonSet, for one
            raise ValueError(f"expected owners whose pods can be moved; pods of a {kind} belong to their node")
        if kind == "Deployment" and group in {"", "apps"}:
            raise ValueError("expected ReplicaSet: it owns the pods of a Deployment")
        if not re.match(_OWNER.removesuffix("$") + r"\Z", written):
            known = _KNOWN_GROUPS.get(kind)
            example = f"{kind}.{known}" if known else "CloneSet.apps.kruise.io"
            raise ValueError(f"expected {', '.join(_BUILT_IN)}, or Kind.group such as {example}")
        return cls(kind, group)

    @property
    def is_foreign(self) -> bool:
        """Whether the kind is not one of Kubernetes' own."""
        return _BUILT_IN.get(self.kind) != self.group

    def __str__(self) -> str:
        """Show it as the file has it."""
        built_in = _BUILT_IN.get(self.kind)
        return self.kind if built_in == self.group else f"{self.kind}.{self.group}"


def _require_text(value: object, expected: str) -> str:
    if isinstance(value, str):
        return value
    meant = f'"{value}"' if isinstance(value, int) and not isinstance(value, bool) else None
    raise unexpected(expected, suggestion=meant)


def _validate_owner(value: object) -> Owner:
    if isinstance(value, Owner):
        return value
    try:
        return Owner.of(_require_text(value, "an owner such as ReplicaSet or CloneSet.apps.kruise.io"))
    except ValueError as error:
        raise unexpected(str(error).removeprefix("expected ")) from None


def _validate_glob(value: object) -> str:
    expected = "a namespace or a glob such as team-* (lower case letters, digits, -, * and ?)"
    text = _require_text(value, expected)
    if re.match(_GLOB.removesuffix("$") + r"\Z", text):
        return text
    lower = text.lower()
    raise unexpected(expected, suggestion=lower if re.match(_GLOB.removesuffix("$") + r"\Z", lower) else None)


def _validate_priority(value: object) -> int | str:
    expected = "a priority such as 1000 or the name of a PriorityClass"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise unexpected(expected)
    if isinstance(value, int):
        if _SMALLEST <= value <= _LARGEST:
            return value
        raise unexpected(f"a priority from {_SMALLEST} to {_LARGEST}")
    if value.lstrip("-").isdecimal():
        raise unexpected(f"{expected}; write a number without quotes")
    if not re.match(_PRIORITY_CLASS.removesuffix("$") + r"\Z", value):
        raise unexpected(expected)
    return value


def _validate_plain_text(value: object) -> str:
    text = _require_text(value, "text")
    if text and text.isprintable() and text == text.strip():
        return text
    raise unexpected("text of printable characters, without blanks at the ends")


OwnerField = Annotated[
    Owner,
    PlainValidator(_validate_owner),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _OWNER, "not": {"pattern": _NO_OWNER}}),
]
"""A field for a kind of owner."""

Glob = Annotated[str, PlainValidator(_validate_glob), WithJsonSchema({"type": "string", "pattern": _GLOB})]
"""A field for a pattern of namespaces: `*` matches any characters, `?` exactly one."""

PriorityBound = Annotated[
    int | str,
    PlainValidator(_validate_priority),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": _SMALLEST, "maximum": _LARGEST},
                {"type": "string", "pattern": _PRIORITY_CLASS, "not": {"pattern": "^-*[0-9]+$"}},
            ]
        }
    ),
]
"""A field for a priority: a number, or the name of a PriorityClass."""

PlainText = Annotated[str, PlainValidator(_validate_plain_text), WithJsonSchema({"type": "string", "pattern": _TEXT})]
"""A field for a name or path that has no grammar of its own."""


class NamespaceFilter(Section):
    """A selection of namespaces: all that match `include`, except those that match `exclude`.

    A use with another default of `exclude` is a subclass, so that a policy which sets only `include` keeps that
    default.
    """

    include: tuple[Glob, ...] = ("*",)
    """Globs of the selected namespaces."""
    exclude: tuple[Glob, ...] = ()
    """Globs of namespaces that are not selected, even if they match `include`."""

    @property
    def only(self) -> str | None:
        """The one namespace that can be selected, as in each group of a team policy; None if there may be more."""
        return self.include[0] if len(self.include) == 1 and not {"*", "?"} & set(self.include[0]) else None

    def selects(self, namespace: str) -> bool:
        """Say whether the namespace is selected."""
        return bool(_compile_globs(self.include).match(namespace)) and not _compile_globs(self.exclude).match(namespace)


@lru_cache(maxsize=1024)
def _compile_globs(globs: tuple[str, ...]) -> re.Pattern[str]:
    """Compile globs to one pattern; without a glob it matches nothing."""
    return re.compile("|".join(f"(?:{_translate_glob(glob)})" for glob in globs) if globs else r"(?!)")


def _translate_glob(glob: str) -> str:
    """Translate a glob to a regular expression that takes no exponential time.

    A part between two stars is matched where it comes first; if the rest does not match after it, it does not match
    after a later place either. So the search for each part is atomic: it is never repeated.
    """
    first, *rest = ("".join("." if letter == "?" else re.escape(letter) for letter in part) for part in glob.split("*"))
    if not rest:
        return rf"{first}\Z"
    *inner, last = rest
    return first + "".join(f"(?>.*?{part})" for part in inner if part) + rf".*{last}\Z"
