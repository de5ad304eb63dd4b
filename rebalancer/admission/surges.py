"""The effect of surges on the memory: their pods count for rates and the standing approval, their failures back off.

Pods that go count like evictions from the start of a surge. The count follows from the records, so it does not depend
on the process or on repetition.
"""

from collections import Counter
from datetime import datetime
from typing import Final

from msgspec import UNSET, structs

from rebalancer.admission.memory import RATE_WINDOW
from rebalancer.admission.standing import charge, refund
from rebalancer.model.moves import Memory, SentRequest, make_place
from rebalancer.surge.record import Ending, Surge
from rebalancer.surge.report import SurgeReport
from rebalancer.tracking.backoff import forget_failures, record_failure

_GONE: Final = frozenset({Ending.DONE, Ending.MISPREDICTED})
"""The endings after which all victims are gone."""

_FAILED: Final = frozenset({Ending.TIMED_OUT, Ending.MISPREDICTED})
"""Endings of surges whose prediction has failed."""


def count_surges(memory: Memory, report: SurgeReport, now: datetime) -> Memory:
    """Return the memory with the surges under way counted, and with the outcomes of ended surges."""
    for surge, *_ in report.under_way:
        memory = _charge(memory, surge)
        if now - surge.begun < RATE_WINDOW:
            memory = _count(memory, surge)
    for surge, ending in report.ended:
        if ending in _FAILED:
            memory = record_failure(memory, surge.group, now)
        elif ending is Ending.DONE:
            memory = forget_failures(memory, surge.group)
        if ending not in _GONE and _is_approved(memory, surge):
            for one in surge.victims:
                memory = refund(memory, one.uid)
    return memory


def _count(memory: Memory, surge: Surge) -> Memory:
    """Count for the rates the pods that are not counted yet."""
    namespace = make_place(surge.namespace)
    sent = Counter(SentRequest(surge.begun, make_place(one.node), namespace) for one in surge.victims)
    missing = sent - Counter(memory.sent)
    return structs.replace(memory, sent=tuple(sorted((*memory.sent, *missing.elements())))) if missing else memory


def _charge(memory: Memory, surge: Surge) -> Memory:
    if _is_approved(memory, surge):
        for one in surge.victims:
            memory = charge(memory, one.uid, 1)
    return memory


def _is_approved(memory: Memory, surge: Surge) -> bool:
    """Return whether the standing approval has let a surge begin."""
    standing = memory.standing
    return standing is not UNSET and standing.plan == surge.approval
