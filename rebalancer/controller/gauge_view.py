"""The input of the gauges: a state of the loop, the findings of its cycle, and what changes without the loop.

Values that several gauges show are computed here, when the first gauge reads them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple

from msgspec.structs import astuple

from rebalancer.account.account import Account
from rebalancer.admission.slow_start import WindowUse
from rebalancer.assessment.assess import EvaluatedConstraint
from rebalancer.assessment.findings import Finding
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.controller.account import find_account
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.series import Series, select_series
from rebalancer.controller.state import LoopState, find_windows
from rebalancer.documents.state_reasons import StateReasons

NEVER: Final = datetime.min.replace(tzinfo=UTC)
"""The time at which the policy was read, before any state of the loop is known."""


class WatchReading(NamedTuple):
    """The watches of one kind at the moment of the scrape. `age` is in seconds."""

    kind: str
    age: float
    objects: int


@dataclass(frozen=True, kw_only=True)
class GaugeView:
    """One state of the loop; only a leader shows the cluster."""

    state: LoopState
    findings: tuple[Finding, ...] = ()
    leads: bool = False
    """Whether this process leads at the time of the scrape."""
    watches: Sequence[WatchReading] = ()
    """The watches at the time of the scrape."""

    @property
    def cycle(self) -> Cycle | None:
        """The last cycle, None before the first."""
        return self.state.cycle

    @cached_property
    def account(self) -> Account | None:
        """The fates of the plan of the last cycle, None before the first."""
        return find_account(self.state, self.cycle) if self.cycle is not None else None

    @cached_property
    def window(self) -> WindowUse:
        """The cluster's window of slow start, of size 0 where slow start is off."""
        windows = find_windows(self.state)
        return windows.cluster if windows is not None else WindowUse(0, 0)

    @cached_property
    def constraints(self) -> Sequence[Series[EvaluatedConstraint]]:
        return select_series(_list_constraints(self.cycle)) if self.cycle is not None else ()

    @cached_property
    def limits(self) -> Sequence[Series[EvaluatedLimit]]:
        return select_series(_list_limits(self.cycle)) if self.cycle is not None else ()


def cycle_of(view: GaugeView) -> Cycle | None:
    """Return the cycle, for rows that are made once per cycle."""
    return view.cycle


def _list_constraints(cycle: Cycle) -> Iterable[Series[EvaluatedConstraint]]:
    states = StateReasons(cycle.plan)
    for group in cycle.assessment.groups:
        for evaluated in (*group.hard, *group.soft):
            constraint, state = evaluated.constraint, states.for_constraint(group, evaluated).state
            for workload in group.workloads:
                if workload.kind == "Pod":
                    continue  # bare pods are only in the report, because names of pods are no labels
                yield Series(
                    namespace=workload.namespace,
                    labels=(*astuple(workload), constraint.key, constraint.when_unsatisfiable),
                    subject=workload,
                    headroom=evaluated.max_skew - evaluated.skew,
                    state=state,
                    of=evaluated,
                )


def _list_limits(cycle: Cycle) -> Iterable[Series[EvaluatedLimit]]:
    states = StateReasons(cycle.plan)
    for limit in cycle.assessment.limits:
        key = "/".join(limit.key.values())
        yield Series(
            namespace=limit.namespace,
            labels=(limit.group, limit.limit, limit.namespace, key, limit.topology_key),
            subject=(limit.group, limit.namespace, key),
            headroom=limit.headroom,
            state=states.for_limit(limit).state,
            of=limit,
        )
