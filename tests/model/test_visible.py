"""Characters that a terminal or a browser obeys are shown, in text, JSON and YAML."""

import json
import sys
import unicodedata
from typing import Final

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.visible import visible, visible_json, visible_lines
from rebalancer.model.yaml_text import dump_yaml
from tests.drawing import examples

OBEYED: Final = {"Cc", "Cf", "Cs", "Zl", "Zp"}
TEXTS: Final = st.text(
    st.characters(codec="utf-8") | st.sampled_from("\x1b\x7f\x85\u2028\u202e\ufeff\U000e0001\r\n\t ab"), max_size=40
)
"""Without surrogates, which no JSON has."""


def obeyed(text: str) -> list[str]:
    """Return the characters of a text that a terminal obeys."""
    return [character for character in text if unicodedata.category(character) in OBEYED]


def test_every_character_of_the_categories_is_shown_and_no_other() -> None:
    """All of Unicode. One that this Python's Unicode does not know yet may be shown, too."""
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category in OBEYED:
            assert visible(chr(code)).isascii()
            assert obeyed(visible(chr(code))) == []
        elif category != "Cn":
            assert visible(chr(code)) == chr(code)


@pytest.mark.parametrize(
    ("character", "shown"),
    [
        ("\x1b", "\\x1b"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
        ("\x85", "\\x85"),
        ("\u2028", "\\u2028"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("\ufffe", "\\ufffe"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_how_a_character_is_shown(character: str, shown: str) -> None:
    """As Python, JSON and YAML write it."""
    assert visible(f"a{character}b") == f"a{shown}b"
    assert visible_lines([f"a{character}b", "c"]) == f"a{shown}b\nc"


def test_a_text_without_any_is_the_same_object() -> None:
    """Most are: no copy is made."""
    text = "shop/web-0 Zürich 東京"
    assert visible(text) is text


def test_a_text_is_cut_as_it_is_shown() -> None:
    """The cut can be seen; a text that just fits is whole."""
    assert visible("abcdef", 6) == "abcdef"
    assert visible("abcdefg", 6) == "abcde…"
    assert visible("\x1b\x1b", 6) == "\\x1b\\…"


@examples(100)
@given(st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2), max_size=3))
def test_json_is_the_same_document_without_them(value: object) -> None:
    """It means what it meant."""
    text = visible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    assert {*obeyed(text)} <= {"\n"}
    assert json.loads(text) == value


@examples(100)
@given(st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2), max_size=3), st.booleans())
def test_yaml_is_the_same_document_without_them(value: object, allow_unicode: bool) -> None:
    """A string with one of them is in one line, so that none of it begins a line."""
    text = dump_yaml(value, width=20, allow_unicode=allow_unicode)
    assert {*obeyed(text)} <= {"\n"}
    assert yaml.safe_load(text) == value


def test_a_yaml_string_with_them_is_in_one_line() -> None:
    """However long it is, as a key, too."""
    forged = "a" * 90 + "\n" + "error: forged " * 20
    assert [line.lstrip(' ?:"')[:5] for line in dump_yaml({"name": forged, forged: 1}).splitlines()] == [
        "name:",
        "aaaaa",
        "1",
    ]
