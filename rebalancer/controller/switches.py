"""Watches what people write into ConfigMaps: the pause and the approval.

A pause acts at once, and an approved plan does not wait for the interval. In addition to the watch, `kill_switch` reads
the pause right before each request.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from rebalancer.adapters.kubernetes.configmaps import (
    APPROVAL,
    CONTROL,
    find_approval,
    find_author,
    find_pause,
    find_written,
)
from rebalancer.adapters.kubernetes.reflector import Contents, Reflector
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.admission import approval
from rebalancer.admission.pause import KEY, Pause
from rebalancer.admission.written import APPROVAL_KEY, NOTHING_WRITTEN, Written, unreadable
from rebalancer.controller.state import ApprovalRead, LoopEvent, PauseRead
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.model.cluster import ConfigMap
from rebalancer.model.history import NOBODY, Author

_log = structlog.get_logger("rebalancer.pause")


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
        tell(PauseRead(pause=pause, author=author_from_contents(contents, KEY)))

    return Reflector(transport, CONFIG_MAPS, namespace=namespace, name=CONTROL, changed=report)


def pause_from_contents(contents: Contents) -> Pause | None:
    """Return the pause in what the watch has read, None if there is none."""
    for fault in contents.faults:
        return Pause(unreadable=fault.message)
    config_maps: tuple[ConfigMap, ...] = contents.objects
    return find_pause(config_maps[0]) if config_maps else None


def author_from_contents(contents: Contents, key: str) -> Author:
    """Return who has changed a key of what the watch has read; see `find_author`."""
    config_maps: tuple[ConfigMap, ...] = contents.objects
    return find_author(config_maps[0], key) if config_maps else NOBODY


def written_from_contents(contents: Contents) -> Written:
    """Return the approval of a whole plan in what the watch has read."""
    for fault in contents.faults:
        return unreadable(fault.message)
    config_maps: tuple[ConfigMap, ...] = contents.objects
    return find_written(config_maps[0]) if config_maps else NOTHING_WRITTEN


def watch_approvals(transport: Transport, namespace: str, tell: Callable[[LoopEvent], None]) -> Reflector:
    """Return the watch, not yet started, that reports every change to the loop.

    An unreadable approval is logged once.
    """
    logged = ""

    def report(contents: Contents) -> None:
        nonlocal logged
        # An unreadable approval approves nothing.
        config_maps: tuple[ConfigMap, ...] = contents.objects
        approved = find_approval(config_maps[0]) if config_maps else ""
        written = written_from_contents(contents)
        if written.problem and written.problem != logged:
            _log.warning("approval has no effect", reason=written.problem)
        logged = written.problem
        tell(
            ApprovalRead(
                approved=approved,
                written=written,
                author=author_from_contents(contents, approval.KEY),
                written_author=author_from_contents(contents, APPROVAL_KEY),
            )
        )

    return Reflector(transport, CONFIG_MAPS, namespace=namespace, name=APPROVAL, changed=report)
