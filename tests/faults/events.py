"""What becomes of the events of a watch whose connection lives on."""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from tests.faults.schedule import DAMAGING, Fault

_REPEATED: Final = 3
"""How many old events come again when a watch is rewound."""


class EventStream:
    """Turns the lines that the server sent into those that the client gets."""

    def __init__(self, fault: Fault, probability: float, dice: random.Random) -> None:
        self.fault = fault
        self._probability = probability
        self._dice = dice
        self._held = b""
        self._passed: deque[bytes] = deque(maxlen=_REPEATED)
        self.damaged = False
        """Whether the client's view can be wrong now until it lists again."""

    def pass_on(self, line: bytes) -> list[bytes]:
        """Return what the client gets when the server has sent this line."""
        lines = self._change(line)
        self._passed.append(line)
        self.damaged |= self.fault in DAMAGING and lines != [line]
        return lines

    def _change(self, line: bytes) -> list[bytes]:
        if self.fault is Fault.SILENT:
            return []
        if self._held:
            held, self._held = self._held, b""
            return [line, held]
        if self._probability and self._dice.random() >= self._probability:
            return [line]
        match self.fault:
            case Fault.DUPLICATED:
                return [line, line]
            case Fault.REORDERED:
                self._held = line
                return []
            case Fault.DROPPED:
                return []
            case Fault.REWOUND:
                return [line, *self._passed]
            case Fault.TRUNCATED:
                return [line[: len(line) // 2] + b"\n"]
            case _:
                return [line]
