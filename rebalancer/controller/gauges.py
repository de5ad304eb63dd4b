"""Declares every gauge once: name, help, labels, and the function that makes its rows from a state of the loop."""

from collections import Counter
from collections.abc import Callable, Iterable
from platform import python_version
from typing import Final

from rebalancer import __version__
from rebalancer.adapters.prometheus import Gauge, Row
from rebalancer.build import find_revision
from rebalancer.controller.gauge_view import NEVER, GaugeView
from rebalancer.controller.resilience_gauges import RESILIENCE_GAUGES
from rebalancer.controller.surge_gauges import SURGE_GAUGES
from rebalancer.controller.workload_gauges import WORKLOAD_GAUGES
from rebalancer.documents.status import count_refusals, guard_status
from rebalancer.model.breaker import BreakerCause
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.policy import NO_TEAM_POLICY, Mode
from rebalancer.policy.merging import MOST_TEAMS

_REVISION: Final = find_revision()
_PARTS: Final = ("now", "waiting", "later", "blocked")


def _number(read: Callable[[GaugeView], float | None]) -> Callable[[GaugeView], Iterable[Row]]:
    """Return the rows of a gauge without labels; None is no row."""

    def rows(view: GaugeView) -> Iterable[Row]:
        value = read(view)
        return [] if value is None else [((), value)]

    return rows


def _read_policy_time(view: GaugeView) -> float | None:
    since = view.state.in_force.policy_since
    return None if since == NEVER else since.timestamp()


def _count_pending(view: GaugeView) -> int:
    proposal = view.cycle.memory.proposal if view.cycle is not None else None
    return len(proposal.uids) if proposal is not None and not proposal.approved else 0


def _count_missing_rights(view: GaugeView) -> int:
    return len(view.state.queue.rights.missing) if view.state.mode is not Mode.OBSERVE else 0


def _count_placeholders(view: GaugeView) -> int:
    return view.cycle.capacity.held if view.cycle is not None and view.cycle.capacity is not None else 0


def _count_findings(view: GaugeView) -> Iterable[Row]:
    findings = (*view.findings, *view.state.reported.prevention.findings)
    return [((kind,), number) for kind, number in Counter(finding.kind for finding in findings).items()]


def _count_refusals(view: GaugeView) -> Iterable[Row]:
    if view.cycle is None or view.account is None:
        return []
    counts = count_refusals(view.account, len(view.cycle.assessment.deadlocks))
    return [((reason,), number) for reason, number in counts.items()]


def _count_parts(view: GaugeView) -> Iterable[Row]:
    if view.account is None:
        return []
    account, fates = view.account, view.account.fates
    numbers = (len(fates.going), len(fates.waiting), account.later, account.blocked)
    return [((part,), number) for part, number in zip(_PARTS, numbers, strict=True)]


def _list_teams(view: GaugeView) -> Iterable[Row]:
    """Return the namespaces that have a team policy or a problem with one, not all that may have one."""
    in_force = view.state.in_force
    written = {name for name, reading in in_force.teams.items() if reading.policy != NO_TEAM_POLICY}
    allowed = {name for name in written if in_force.policy.cluster.team_policies.allows(name)}
    listed = sorted(allowed | in_force.team_problems.keys())[:MOST_TEAMS]
    return [((name,), name not in in_force.team_problems) for name in listed]


GAUGES: Final[tuple[Gauge[GaugeView], ...]] = (
    *RESILIENCE_GAUGES,
    *SURGE_GAUGES,
    *WORKLOAD_GAUGES,
    Gauge(
        name="rebalancer_capacity_placeholders",
        help="Placeholder pods that hold capacity, or wait for it.",
        rows=_number(_count_placeholders),
    ),
    Gauge(
        name="rebalancer_findings",
        help="Problems that violate no constraint and no limit, by kind.",
        labels=("kind",),
        values=tuple(FindingKind),
        rows=_count_findings,
    ),
    Gauge(
        name="rebalancer_planned_evictions",
        help="Evictions of the last plan that are still to be made for all that can be repaired: "
        "now, waiting and later.",
        rows=_number(lambda view: view.account.waiting if view.account is not None else 0),
    ),
    Gauge(
        name="rebalancer_minimum_evictions",
        help="Proven minimum of rebalancer_planned_evictions.",
        rows=_number(lambda view: view.account.lower_bound if view.account is not None else 0),
    ),
    Gauge(
        name="rebalancer_plan_evictions",
        help="Evictions of the last plan that are still to be made, by part: now, waiting (held by a budget, the "
        "order, a rate, a pause, the mode or a missing approval), later (not decided yet), blocked (for violations "
        "that cannot be repaired now).",
        labels=("part",),
        values=_PARTS,
        rows=_count_parts,
    ),
    Gauge(
        name="rebalancer_plan_pending",
        help="Evictions of the proposed plan that wait for approval, in mode Approve.",
        rows=_number(_count_pending),
    ),
    Gauge(
        name="rebalancer_approved_evictions_left",
        help="Pods that may still be taken away by the approval of a whole plan, in mode Approve; 0 without one.",
        rows=_number(lambda view: standing.left if (standing := view.state.memory.standing) else 0),
    ),
    Gauge(
        name="rebalancer_in_flight",
        help="Evicted pods whose replacements are not yet Ready.",
        rows=_number(lambda view: len(view.state.memory.in_flight)),
    ),
    Gauge(
        name="rebalancer_prevention_left",
        help="Deletion costs of the controller's own that are still to be removed.",
        rows=_number(lambda view: view.state.reported.prevention.left),
    ),
    Gauge(
        name="rebalancer_prevention_stopped",
        help="1 while deletion costs should be written or removed and something stands in the way; "
        "the status says what.",
        rows=_number(lambda view: bool(view.state.reported.prevention.stopped)),
    ),
    Gauge(
        name="rebalancer_refusals",
        help="Repairs and evictions of the last plan that are not carried out, or not yet, by reason.",
        labels=("reason",),
        values=tuple(Reason),
        rows=_count_refusals,
    ),
    Gauge(
        name="rebalancer_leader",
        help="1 if this process is the leader, else 0.",
        rows=_number(lambda view: view.leads),
        leader_only=False,
    ),
    Gauge(
        name="rebalancer_mode",
        help="1 for the mode in force, 0 for the others.",
        labels=("mode",),
        values=tuple(Mode),
        rows=lambda view: [((view.state.mode,), 1)],
        leader_only=False,
    ),
    Gauge(
        name="rebalancer_paused",
        help="1 while somebody has paused the controller, else 0.",
        rows=_number(lambda view: view.state.in_force.pause is not None),
    ),
    Gauge(
        name="rebalancer_breaker_open",
        help="Whether the breaker is open for the cause, so that nothing is evicted (1) or not (0).",
        labels=("cause",),
        values=tuple(BreakerCause),
        rows=lambda view: (
            [((known.cause,), 1) for known in view.cycle.context.breaker.causes] if view.cycle is not None else []
        ),
    ),
    Gauge(
        name="rebalancer_rights_missing",
        help="Namespaces in which the mode wants evictions and the account has no right to evict; 0 in mode Observe. "
        "While nothing is to be evicted, those with constraints, if it may evict in none of them.",
        rows=_number(_count_missing_rights),
    ),
    Gauge(
        name="rebalancer_guard_good",
        help="1 if the last answer for a guard was good, else 0; no series while no eviction waits for guards.",
        labels=("guard",),
        rows=lambda view: [((guard.name,), guard.good) for guard in guard_status(view.state.guards)],
    ),
    Gauge(
        name="rebalancer_memory_saved",
        help="1 if the last attempt to save the memory succeeded; while it is 0, nothing is evicted.",
        rows=_number(lambda view: not view.state.queue.unsaved),
    ),
    Gauge(
        name="rebalancer_slow_start_window",
        help="How many moves may be under way at once in the cluster now (budgets.slowStart); "
        "0 while slow start is off.",
        rows=_number(lambda view: view.window.at_once),
    ),
    Gauge(
        name="rebalancer_moves_under_way",
        help="Moves whose replacement has not arrived yet and is not overdue: not Ready, nor bound for 15 seconds.",
        rows=_number(lambda view: view.window.under_way),
    ),
    Gauge(
        name="rebalancer_replacements_overdue",
        help="Moves whose replacement was not created, is not bound or does not run.",
        rows=_number(lambda view: sum(move.overdue for move in view.state.memory.moves)),
    ),
    Gauge(
        name="rebalancer_own_failures",
        help="Overdue replacements that fail because of their own namespace, such as its quota, an image that only it "
        "runs, or a template that never ran. They hold up no other namespace.",
        rows=_number(
            lambda view: sum(move.overdue and move.own_failure is not None for move in view.state.memory.moves)
        ),
    ),
    Gauge(
        name="rebalancer_policy_last_reload_successful",
        help="1 if the newest policy is in force, 0 if it is invalid and an older one stays in force.",
        rows=_number(lambda view: not view.state.in_force.policy_error),
        leader_only=False,
    ),
    Gauge(
        name="rebalancer_policy_last_reload_timestamp_seconds",
        help="When the policy in force was read.",
        rows=_number(_read_policy_time),
        leader_only=False,
    ),
    Gauge(
        name="rebalancer_team_policy_valid",
        help="1 if the team policy of the namespace is in force as written, else 0; at most 500 namespaces.",
        labels=("namespace",),
        rows=_list_teams,
    ),
    Gauge(
        name="rebalancer_last_cycle_timestamp_seconds",
        help="When the last cycle ended.",
        rows=_number(lambda view: view.cycle.context.now.timestamp() if view.cycle is not None else None),
    ),
    Gauge(
        name="rebalancer_watch_age_seconds",
        help="Seconds since the objects of a kind were last known: from an event, a bookmark or a whole list.",
        labels=("kind",),
        rows=lambda view: [((watch.kind,), watch.age) for watch in view.watches],
        leader_only=False,
    ),
    Gauge(
        name="rebalancer_cache_objects",
        help="Objects of a kind in the cache.",
        labels=("kind",),
        rows=lambda view: [((watch.kind,), watch.objects) for watch in view.watches],
        leader_only=False,
    ),
    Gauge(
        name="rebalancer_build_info",
        help="Always 1; the labels are the versions of the running process.",
        labels=("version", "revision", "python_version"),
        rows=lambda _: [((__version__, _REVISION, python_version()), 1)],
        leader_only=False,
    ),
)
