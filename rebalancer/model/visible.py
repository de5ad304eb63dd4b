r"""Foreign text made visible: a terminal or a browser obeys none of it, and it begins no line.

kube-apiserver accepts any character in the kind and the name of an owner and in a topologyKey. Code that writes a text
calls this once for the whole text: `ESC[2J` is shown as `\x1b[2J`, a line break as `\n`, U+202E as `\u202e`. The
escapes are those of JSON, YAML and Python, so that an encoded document keeps its content.
"""

import re
from collections.abc import Iterable
from typing import Final

_ABOVE_C0: Final = (
    "\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064"
    "\u2066-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
"""Unicode's categories Cc, Cf, Cs, Zl and Zp as ranges, since a scan takes longer; and the two that XML forbids."""

OBEYED: Final = f"[\x00-\x1f{_ABOVE_C0}]"
"""A regular expression for one character that a terminal obeys instead of showing it."""

_OBEYED: Final = re.compile(OBEYED)
_IN_LINES: Final = re.compile(f"[\x00-\x09\x0b-\x1f{_ABOVE_C0}]")
_IN_JSON: Final = re.compile(f"[{_ABOVE_C0}]")
_SHORT: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_LARGEST_BMP: Final = 0xFFFF


def visible(text: str, most: int | None = None) -> str:
    """Return a text as one line without characters that are obeyed; a text above `most` characters ends in `…`."""
    shown = text if text.isprintable() else _OBEYED.sub(_escape, text)  # quick: printable text has none
    return shown if most is None or len(shown) <= most else f"{shown[: most - 1]}…"


def visible_lines(lines: Iterable[str]) -> str:
    """Join our own lines to one text: a line break is only between them."""
    return "\n".join(map(visible, lines))


def visible_json(text: str) -> str:
    """Escape in a JSON document what its encoder leaves: the document means the same.

    Such characters occur inside its strings only; the encoder has escaped those below U+0020.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _IN_JSON.sub(_escape_utf16, text)


def visible_yaml(text: str) -> str:
    """Escape in a YAML document what its encoder leaves; strings with such characters are double-quoted."""
    return _IN_LINES.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if code > _LARGEST_BMP:
        return f"\\U{code:08x}"
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _escape_utf16(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= _LARGEST_BMP:
        return f"\\u{code:04x}"
    high, low = divmod(code - _LARGEST_BMP - 1, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
