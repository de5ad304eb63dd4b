"""What a command declares of who runs it, in an annotation of the object that it changes.

Anybody who may change the object may declare any name; the audit log of the API server is the proof. A declaration says
what it is about, so that it is not taken for the author of a later change.
"""

from typing import Final

import msgspec

from rebalancer.history.words import cut
from rebalancer.model.visible import visible_json

ANNOTATION: Final = "rebalancer.dev/changed-by"


class Declaration(msgspec.Struct, frozen=True):
    """Who changes an object, and what the change is about: the token of the pause that it ends, or a plan's hash."""

    by: str = ""
    of: str = ""


def format_declaration(declaration: Declaration) -> str:
    """Return the text of the annotation."""
    return visible_json(msgspec.json.encode(declaration).decode())


def read_declaration(text: str) -> Declaration:
    """Return what an annotation declares; one that somebody has damaged, or that is not there, declares nothing."""
    try:
        declaration = msgspec.json.decode(text or "{}", type=Declaration)
    except msgspec.DecodeError:
        return Declaration()
    return Declaration(by=cut(declaration.by), of=cut(declaration.of))
