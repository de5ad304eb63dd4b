"""What kube-scheduler says in its log about the pods it handles, as data.

The log is text (`Options.scheduler_modules`): a message in quotes, then fields `name=value`.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

MODULES: Final = "schedule_one=10,filtering=10,taint_toleration=10,eventhandlers=4"
SPREAD_FAILURES: Final = (
    "Node failed spreadConstraint",
    "Node doesn't have required topology label",
)
"""How the messages begin with which PodTopologySpread rejects a node."""
_LINE = re.compile(r'^[IWE]\S+ \S+\s+\d+ (?P<source>\w+)\.go:\d+\] "(?P<message>(?:[^"\\]|\\.)*)"(?P<fields>.*)$')
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')


class ScheduleTimeoutError(AssertionError):
    """The log does not say in time what it should."""


@dataclass(kw_only=True)
class Decision:
    """The log's entries on one pod since its last attempt."""

    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    """Weighted scores by plugin and node; empty where fewer than two nodes are feasible."""
    totals: dict[str, int] = field(default_factory=dict)
    spread_failures: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Nodes that PodTopologySpread rejected, with the numbers it says."""
    tainted: set[str] = field(default_factory=set)
    landing: str = ""
    feasible: int = -1
    failure: str = ""

    @property
    def over(self) -> bool:
        """Whether it is decided."""
        return bool(self.landing or self.failure)


class SchedulerLog:
    """Reads the log as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self.decisions: dict[str, Decision] = {}
        self.events: Counter[tuple[str, str]] = Counter()
        """How often each (message, object) was seen: what the scheduler's cache has heard of."""

    def read(self) -> None:
        """Take in what is new."""
        with self._path.open("rb") as log:
            log.seek(self._offset)
            data = self._rest + log.read()
            self._offset = log.tell()
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            match = _LINE.match(line.decode("utf-8", "replace"))
            if match is not None:
                self._take(match["message"], dict(_fields(match["fields"])))

    def _take(self, message: str, fields: dict[str, Any]) -> None:
        if " event for " in message:
            self.events[message, str(fields.get("pod") or fields.get("node"))] += 1
            return
        pod = fields.get("pod")
        if pod is None:
            return
        if message == "Attempting to schedule pod":
            self.decisions[pod] = Decision()
            return
        decision = self.decisions.setdefault(pod, Decision())
        match message:
            case "Plugin scored node for pod":
                decision.scores.setdefault(fields["plugin"], {})[fields["node"]] = int(fields["score"])
            case "Calculated node's final score for pod":
                decision.totals[fields["node"]] = int(fields["score"])
            case "node had untolerated taints":
                decision.tainted.add(fields["node"])
            case "Successfully bound pod to node":
                decision.landing, decision.feasible = fields["node"], int(fields["feasibleNodes"])
            case "Unable to schedule pod; no fit; waiting":
                decision.failure = fields["err"]
            case _ if message.startswith(SPREAD_FAILURES):
                decision.spread_failures[fields["node"]] = fields

    def wait(self, done: Callable[[], bool], what: str, timeout: float = 20.0) -> None:
        """Read until something holds."""
        deadline = time.monotonic() + timeout
        while True:
            self.read()
            if done():
                return
            if time.monotonic() > deadline:
                raise ScheduleTimeoutError(f"waited {timeout:g} s in vain for the scheduler's log to say: {what}")
            time.sleep(0.005)


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _FIELD.findall(text):
        yield name, json.loads(value.replace("\\'", "'")) if value.startswith('"') else value
