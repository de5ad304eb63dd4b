"""How far the loss of nodes has come."""

from enum import StrEnum


class Phase(StrEnum):
    """Silent: the nodes do not answer, and their Node objects are tainted. Gone: the Node objects are deleted."""

    SILENT = "silent"
    GONE = "gone"
