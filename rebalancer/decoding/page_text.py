"""A page of a list as text: its head, its objects some at a time, and the page without what nobody reads.

All of it relies on the form in which the API server writes lists: without blanks, the metadata before the objects, and
of each object the metadata first. What has another form is left as it is, or said to have it.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from rebalancer.decoding import wire

_ITEMS: Final = b'"items":'
_HEAD_LENGTH: Final = 8192
"""Bytes in which the metadata of a list has ended: a token has a few hundred."""

_TAIL_LENGTH: Final = 8
_BLANKS: Final = b" \t\r\n"
"""Those of JSON."""

_BETWEEN: Final = b'},{"metadata":{'
"""Between two objects. In a string the quote would be escaped; a part that ends inside of an object is no JSON."""

PART_LENGTH: Final = 96 * 1024
"""Bytes of a part: ten pods or more, and what is made of them on the way fits into a cache of half a MiB."""

_MANAGED_FIELDS: Final = b'"managedFields":['
_SPEC: Final = b'},"spec":'
_FARTHEST: Final = 16 * 1024
"""Bytes in which the next `managedFields` is looked for at once: in less text it is found faster."""

_HEAD: Final = msgspec.json.Decoder(wire.ListOf[msgspec.Raw])


class OtherForm(ValueError):  # noqa: N818  # no error: the page is decoded in another way
    """The page is not written as the API server writes it."""


def read_head(data: bytes | memoryview) -> wire.ListMetadata:
    """Return the metadata of a page as far as it comes before the objects."""
    head = bytes(data[:_HEAD_LENGTH])
    end = head.find(_ITEMS)
    if end < 0:
        return wire.ListMetadata()
    try:
        return _decode_head(head[:end])
    except msgspec.DecodeError:
        return wire.ListMetadata()


def _decode_head(text: bytes) -> wire.ListMetadata:
    """Decode what comes before the objects, as if there were none."""
    return _HEAD.decode(text + _ITEMS + b"[]}").metadata


def divide_page(data: bytes | memoryview, length: int = PART_LENGTH) -> tuple[wire.ListMetadata, Iterator[bytearray]]:
    """Return the metadata of a page, and its objects, some at a time, in arrays.

    Raises OtherForm where the page has another form; a part that is not valid JSON shows that too. `length` is how many
    bytes of the page a part takes at most, unless one object takes more.
    """
    head, tail = bytes(data[:_HEAD_LENGTH]), bytes(data[-_TAIL_LENGTH:])
    start, close = head.find(_ITEMS + b"["), tail.rstrip(_BLANKS)
    if start < 0 or not close.endswith(b"]}"):
        raise OtherForm
    try:
        metadata = _decode_head(head[:start])
    except msgspec.DecodeError as error:
        raise OtherForm from error
    end = len(data) - len(tail) + len(close) - len(b"]}")
    return metadata, _divide_items(memoryview(data), start + len(_ITEMS + b"["), end, length)


def _divide_items(view: memoryview, at: int, end: int, length: int) -> Iterator[bytearray]:
    while at < end:
        part = bytearray(b"[")
        part += view[at : min(at + length, end)]
        following = at + len(part)
        if following <= end:
            cut = part.rfind(_BETWEEN)
            if cut > 0:
                del part[cut + 1 :]
                following = at + cut + 1
            else:  # a large object, or objects that begin with something else
                part += view[at + length : end]
                following = end
        part += b"]"
        yield part
        at = following


def without_managed_fields(data: bytes) -> Iterator[memoryview]:
    """Yield the page in pieces that leave out the entries of `managedFields`: half of the text of most pods.

    They go from the bracket that opens the array to the first one that closes an array, if the object's metadata ends
    there and its spec follows. That the entries contain no arrays is the form that the API gives them. A bracket that a
    quote or a backslash follows, at once or after braces, is inside of a string, and so is one with a comma and a
    backslash: no array ends like that.
    """
    view, begin, at, end = memoryview(data), 0, 0, len(data)
    while at < end:
        key = data.find(_MANAGED_FIELDS, at, at + _FARTHEST)
        if key < 0:
            at += _FARTHEST - len(_MANAGED_FIELDS)
            continue
        at = opened = key + len(_MANAGED_FIELDS)
        closed = _find_closing(data, opened)
        if closed:
            yield view[begin:opened]
            begin = at = closed
    yield view[begin:]


def _find_closing(data: bytes, opened: int) -> int:
    """Return where the array that ends an object's metadata is closed, 0 where something else follows."""
    closed = data.find(b"]", opened)
    while closed > 0:
        after = closed + 1
        while data[after : after + 1] == b"}":
            after += 1
        if data[after : after + 1] not in {b'"', b"\\"} and data[after : after + 2] != b",\\":
            return closed if data.startswith(_SPEC, closed + 1) else 0
        closed = data.find(b"]", after)
    return 0
