"""YAML as it is written for people: a string with characters that a terminal obeys is one escaped line."""

from typing import Any

import yaml

from rebalancer.model.visible import visible, visible_yaml


class _Dumper(yaml.SafeDumper):
    """Quotes such a string, as YAML has escapes in double quotes only, and breaks no quoted string into lines."""

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        """Write it in one line: a fold behind an escape would begin a line with the text."""
        del split
        super().write_double_quoted(text, split=False)


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if visible(text) == text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


def dump_yaml(value: Any, *, width: int = 80, allow_unicode: bool = False) -> str:
    """Encode a value; reading the text gives the same value."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=width)
    return visible_yaml(text)
