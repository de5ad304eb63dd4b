"""A command's declaration of its author, in an annotation of the object that it changes.

Anybody who may change the object may declare any name; only the audit log of the API server is proof. A declaration
says which change it is about, so that its author is not mistaken for that of a later change. The declaration of a
pause's end names that pause. It is the only trace of a pause that came and went while no process led, or no watch was
open.
"""

from typing import Final

import msgspec

from rebalancer.history.ring import LATEST
from rebalancer.history.words import cut
from rebalancer.model.history import EndedPause
from rebalancer.model.visible import visible_json

ANNOTATION: Final = "rebalancer.dev/changed-by"


class Declaration(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who changed an object, and what the change is about: the token of an ended pause, or a plan's hash."""

    by: str = ""
    of: str = ""
    ended: EndedPause | None = None


def format_declaration(declaration: Declaration) -> str:
    """Return the text of the annotation."""
    return visible_json(msgspec.json.encode(declaration).decode())


def read_declaration(text: str) -> Declaration:
    """Return what an annotation declares; a damaged or missing annotation declares nothing."""
    try:
        declaration = msgspec.json.decode(text or "{}", type=Declaration)
    except msgspec.DecodeError:
        return Declaration()
    return Declaration(by=cut(declaration.by), of=cut(declaration.of), ended=_check(declaration.ended))


def _check(ended: EndedPause | None) -> EndedPause | None:
    """Return a declared pause with its texts cut to a limit, None if its times are impossible."""
    if ended is None or not 0 <= ended.since <= ended.at < LATEST or not 0 <= ended.until < LATEST:
        return None
    return msgspec.structs.replace(ended, by=cut(ended.by), manager=cut(ended.manager), reason=cut(ended.reason))
