"""What people write into ConfigMaps: the pause and the approval, watched, and the kill switch, read before a request.

A watch on the ConfigMap `rebalancer-control` has a pause act at once. One on `rebalancer-approval` has an approved plan
not wait for the interval. Besides, the kill switch is read afresh right before each request that changes something. One
answer serves the requests of the next half second. So from a second after a pause was stored no request is begun,
whatever the watches do.
"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from rebalancer.adapters.kubernetes.configmaps import APPROVAL, CONTROL, find_approval, find_pause
from rebalancer.adapters.kubernetes.reflector import Contents, Reflector
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.admission.pause import Pause
from rebalancer.controller.state import ApprovalRead, Clocks, LoopEvent, PauseRead
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.model.cluster import ConfigMap
from rebalancer.ports import Cluster, ReadFailedError

_log = structlog.get_logger("rebalancer.pause")

ANSWER_SERVES: Final = 0.5
"""Seconds after its request was begun for which an answer about the kill switch serves other requests."""

ANSWER_USABLE: Final = 0.8
"""Seconds after which a slow answer is too old for the request that waited for it."""


def watch_pauses(transport: Transport, namespace: str, tell: Callable[[LoopEvent], None]) -> Reflector:
    """Return the watch, not yet started, that reports every change to the loop.

    A pause that is not in force when it is read is logged, once.
    """
    logged = ""

    def report(contents: Contents) -> None:
        nonlocal logged
        pause = pause_from_contents(contents)
        ended = pause.explain_end(datetime.now(UTC)) if pause is not None else ""
        if ended and ended != logged:
            _log.warning("pause has no effect", reason=ended)
        logged = ended
        tell(PauseRead(pause=pause))

    return Reflector(transport, CONFIG_MAPS, namespace=namespace, name=CONTROL, changed=report)


def pause_from_contents(contents: Contents) -> Pause | None:
    """Return the pause in what the watch has read, None if there is none."""
    for fault in contents.faults:
        return Pause(unreadable=fault.message)
    config_maps: tuple[ConfigMap, ...] = contents.objects
    return find_pause(config_maps[0]) if config_maps else None


def watch_approvals(transport: Transport, namespace: str, tell: Callable[[LoopEvent], None]) -> Reflector:
    """Return the watch, not yet started, that reports every change to the loop."""

    def report(contents: Contents) -> None:
        # What cannot be read approves nothing.
        config_maps: tuple[ConfigMap, ...] = contents.objects
        tell(ApprovalRead(approved=find_approval(config_maps[0]) if config_maps else ""))

    return Reflector(transport, CONFIG_MAPS, namespace=namespace, name=APPROVAL, changed=report)


class KillSwitch:
    """Reads the pause, for any number of threads."""

    def __init__(self, cluster: Cluster, clocks: Clocks) -> None:
        self._cluster = cluster
        self._clocks = clocks
        self._reading = threading.Lock()
        self._read_at: float | None = None

    def read(self) -> Pause | None:
        """Return the pause in force, None where there is none: from the last answer if it is recent, else a new one.

        Raise ReadFailedError where it cannot be read, or not in time.
        """
        with self._reading:
            began = self._clocks.monotonic()
            if self._read_at is not None and began - self._read_at < ANSWER_SERVES:
                return None
            self._read_at = None
            pause = self._cluster.read_pause()
            took = self._clocks.monotonic() - began
            if took > ANSWER_USABLE:
                raise ReadFailedError(f"the answer took {took:.1f}s, more than {ANSWER_USABLE}s")
            if pause is not None and pause.holds(self._clocks.now()):
                return pause
            self._read_at = began
            return None
