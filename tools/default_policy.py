"""The files that follow from the declarations of the policy's fields: the default policy, its copies, the schemas.

People write the comments of `config/policy.yaml`. A missing field is added in the order of the declarations, with the
docstring as its comment and its default. Anyone may edit that comment there, and the edit stays.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from rebalancer.policy import Policy, default_policy, json_schema, team_json_schema
from rebalancer.policy.base import Section

_WIDTH: Final = 120
_KEY: Final = re.compile(r" *([A-Za-z]\w*):")
_HEAD: Final = "  policy.yaml: |\n"
"""Where the copy begins in the ConfigMap."""


def policy_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield what each of the files should hold."""
    own, copy = root / "config" / "policy.yaml", root / "deploy" / "base" / "policy.yaml"
    text = with_every_field(own.read_text(encoding="utf-8"))
    yield own, text
    before = copy.read_text(encoding="utf-8").partition(_HEAD)[0]
    yield copy, before + _HEAD + textwrap.indent(text, "    ")
    yield root / "config" / "policy.schema.json", _schema_text(json_schema())
    yield root / "config" / "team-policy.schema.json", _schema_text(team_json_schema())


def _schema_text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2) + "\n"


def with_every_field(text: str) -> str:
    """Return a policy file with those fields added that it lacks; fields within lists are not looked for."""
    lines = text.splitlines()
    _complete(lines, 0, Policy, default_policy().to_dict())
    return "\n".join(lines) + "\n"


def _complete(
    lines: list[str], first: int, section: type[Section], defaults: Mapping[str, Any], indent: int = 0
) -> None:
    """Add the fields that a section lacks, each after the one declared before it; its own begin with line `first`."""
    after = first
    for name, field in section.model_fields.items():
        key, inner = field.alias or name, field.annotation
        block = _blocks(lines, first, indent).get(key)
        if block is None:
            written = _written(key, field.description or "", defaults[key], indent)
            lines[after:after] = written
            after += len(written)
            continue
        if isinstance(inner, type) and issubclass(inner, Section):
            _complete(lines, block[0] + 1, inner, defaults[key], indent + 2)
        after = _blocks(lines, first, indent)[key][1]


def _blocks(lines: list[str], first: int, indent: int) -> dict[str, tuple[int, int]]:
    """Return where the keys of an indent stand, and where their values end; a comment belongs to what follows it."""
    blocks: dict[str, tuple[int, int]] = {}
    last = ""
    for number, line in enumerate(lines[first:], start=first):
        depth = len(line) - len(line.lstrip())
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if depth < indent:
            break
        key = _KEY.match(line) if depth == indent else None
        last = key[1] if key is not None else last
        blocks[last] = blocks[last][0] if key is None else number, number + 1
    return blocks


def _written(key: str, description: str, default: Any, indent: int) -> list[str]:
    """Return a field with its comment."""
    margin = " " * indent
    words = " ".join(description.split())
    comment = textwrap.wrap(words, _WIDTH, initial_indent=f"{margin}# ", subsequent_indent=f"{margin}# ")
    if isinstance(default, dict) and default:
        value = yaml.safe_dump({key: default}, sort_keys=False, allow_unicode=True, width=_WIDTH)
    else:
        flow = yaml.safe_dump(default, allow_unicode=True, width=float("inf"), default_flow_style=True)
        value = f"{key}: {flow.splitlines()[0]}"
    return [*comment, *textwrap.indent(value, margin).splitlines()]
