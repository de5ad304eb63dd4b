"""The kill switch on the real API server: from a second after a pause was stored, no eviction is requested."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.control_plane.plane import ControlPlane
from tests.faults.kill_switch import EVICTIONS, MOMENTS, Moment, Throw, throw
from tests.faults.scenario import Lane, in_lanes

LANES = 3
"""How many run side by side: the processor must not be what delays them."""

LIMIT_SECONDS = 1.0


class _Case(NamedTuple):
    moment: Moment
    silent: bool
    touched: bool = False


def check(plane: ControlPlane, cases: Sequence[_Case]) -> None:
    """Throw the switch in every case."""

    def run(lane: Lane, case: _Case) -> Throw:
        result = throw(lane, case.moment, silent=case.silent, touched=case.touched)
        print(result, flush=True)
        return result

    throws = in_lanes(plane, cases, run, lanes=LANES)
    late = [f"{result}\n{result.log}" for result in throws if result.late > LIMIT_SECONDS]
    assert not late, "\n".join(late)
    finished = [str(result) for result in throws if result.before >= EVICTIONS]
    assert not finished, "nothing was left to evict when the pause came"
    for case, result in zip(cases, throws, strict=True):
        assert result.after or not case.moment.goes_on, f"{result}: nothing was evicted after the pause"


def test_nothing_is_evicted_once_a_pause_is_stored(cluster: ControlPlane) -> None:
    """In states of the loop in which requests are about to be sent, while the watch of the pause delivers nothing."""
    names = {"it saves what it will evict", "it reads the kill switch", "the queue is in its middle"}
    check(cluster, [_Case(moment, silent=True) for moment in MOMENTS if moment.name in names])


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_nothing_is_evicted_once_a_pause_is_stored_in_any_state(cluster: ControlPlane) -> None:
    """In every state, with a watch that works and one that is silent, and after a harmless change of the object."""
    kinds = [(False, False), (True, False), (False, True)]
    check(cluster, [_Case(moment, silent, touched) for moment in MOMENTS for silent, touched in kinds])
