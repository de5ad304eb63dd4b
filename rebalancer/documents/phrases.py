"""Phrases that plan, report, explanation and prediction share: names, counts, limits, the proof, the searches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import starmap
from typing import Final, Protocol

from rebalancer.account.numbers import PlanNumbers
from rebalancer.assessment.anti_affinity.result import Conflict
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.domain_counts import FEW, ListedCounts, list_counts
from rebalancer.model.facts import Refusal
from rebalancer.model.moments import seconds_between
from rebalancer.model.moves import MoveState
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot, get_known_time
from rebalancer.model.words import SHORT_KEYS, format_duration, format_rest, name_list, plural, short_key
from rebalancer.planning.diagnosis.relaxation import NO_RELAXATIONS, Relaxations
from rebalancer.planning.eviction import Eviction, ViolatedRequirement, ViolatedTerm
from rebalancer.planning.expected_counts import expected_worst
from rebalancer.planning.plan import ComponentPlan
from rebalancer.planning.search.driver import Flaw
from rebalancer.planning.search.report import Method
from rebalancer.scheduling.predict import Prediction
from rebalancer.scheduling.preemption import describe_preemptions

_MOST_NODES = 6
"""Up to this many candidate nodes are listed; the rest are counted."""

_LONG_GRACE: Final = timedelta(minutes=10)
"""Longer grace periods are mentioned."""


_METHODS: Final[Mapping[str, str]] = {
    Method.CERTIFICATE: "a certificate (arithmetic on the counts)",
    Method.CONTINGENT: "a contingent plan for the whole repair",
    Method.FORCED: "a step that is forced by itself",
    Method.LOOKAHEAD: "lookahead on the real nodes",
    Method.PARTIAL: "a partial repair",
    Method.ADDITION: "adding pods first, whichever feasible nodes the scheduler picks for them",
    Method.PREEMPTION: "a repair by preemption",
}
_FLAWS: Final[Mapping[str, str]] = {
    "NotNearer": "the minimum would not fall",
    "Pending": "a pod would stay pending",
    "Worse": "a constraint would be exceeded by more",
    "Closed": "no node would admit a further pod",
    "Unknown": "the scheduler's choices could not be followed",
}
"""The sentence on a flaw, by its name in documents."""


def domain_name(key: str, domain: str) -> str:
    """Name a domain at the start of a sentence: `Zone c`, or `Domain r1 of example.com/rack`."""
    return f"{SHORT_KEYS[key].capitalize()} {domain}" if key in SHORT_KEYS else f"Domain {domain} of {key}"


def key_text(key: Mapping[str, str]) -> str:
    """Name the pods that a limit counts: a workload as `kubectl` does, labels by their values."""
    if key.keys() == {"workload"}:
        return key["workload"]
    return ",".join(starmap(_label_text, key.items()))


def _label_text(label: str, value: str) -> str:
    return value if label == "workload" else f"{label.rpartition('/')[2]}={value}"


class _Named(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...


class _Likely(Protocol):
    @property
    def values(self) -> Sequence[str]: ...

    @property
    def more(self) -> int: ...


class _Took(Protocol):
    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...

    @property
    def of(self) -> int: ...


SEEN_LATER: Final = frozenset({MoveState.VERIFIED, MoveState.INEFFECTIVE, MoveState.OVERTAKEN})
"""Ends of a move that a snapshot shows, maybe long after them if no process led in between."""


def took_text(outcome: str, began: datetime, seen: datetime, ready: datetime | None) -> str:
    """Say how long a move took until its replacement was Ready, or, if unknown, at most until that was seen.

    Both times are cut to whole seconds: the history stores no fractions, and status and page must agree with it.
    """
    seconds = seconds_between(began, ready or seen)
    if ready is None and outcome in SEEN_LATER:
        return f"at most {format_duration(timedelta(seconds=max(1, seconds)))}"
    return f"about {format_duration(timedelta(seconds=seconds))}"


def past_moves(usual: _Took) -> str:
    """Say how long the last moves took, without promising how long the next will take: `last 3 took about 1s to 7s`."""
    low, high = (format_duration(timedelta(seconds=seconds)) for seconds in (usual.low, usual.high))
    which = "last one" if usual.of == 1 else f"last {usual.of}"
    return f"{which} took about {low}" + (f" to {high}" if high != low else "")


def ago(moment: datetime, now: datetime) -> str:
    """Say how long ago a moment was, in its largest unit: `12s ago`."""
    seconds = max(0, int((now - moment).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit} ago"
    return f"{seconds}s ago"


_EARLIEST: Final = " at the earliest"

OR_ANOTHER: Final = "or another pod"
"""Added to the next pod if another may be chosen by then."""

NO_CONTROLLER: Final = "no controller runs"
"""Why nothing moves without a leader: nothing follows the end of a wait."""

DOES_NOT_GO_ON: Final = f"does not go on: {NO_CONTROLLER}"


def from_now(moment: datetime, now: datetime) -> str:
    """Say how far off a moment is, and its time: `in 3m36s (2026-01-05 08:05:12Z)`."""
    if get_known_time(now) is None:
        return f"at {moment:%Y-%m-%d %H:%M:%SZ}"
    left = format_rest(moment - now) if moment > now else "0s"
    return f"in {left} ({moment:%Y-%m-%d %H:%M:%SZ})"


def wait_until(until: datetime, now: datetime) -> str:
    """Say in how long a wait ends, or, if its time has passed, that it ends with the next cycle."""
    if get_known_time(now) is None or until > now:
        return from_now(until, now)
    return f"with the next cycle (its time was over at {until:%Y-%m-%d %H:%M:%SZ})"


def end_text(
    until: datetime | None, ends_with: str, now: datetime, usual: _Took | None = None, *, verb: str = "goes on"
) -> str:
    """Say when a wait ends; `usual` is how long the last moves took. Begins with a verb."""
    if until is not None:
        # Another wait may follow, and if several waits end at once, the rates admit only some evictions.
        return f"{verb} {wait_until(until, now)}" + (_EARLIEST if verb == "goes on" else "")
    if not ends_with:
        return "does not end by itself"
    # A span counts as an event if it is not known when it began.
    earliest = _EARLIEST if verb == "goes on" and ends_with.startswith("in ") else ""
    return f"{verb} {ends_with}{earliest}" + (f" ({past_moves(usual)})" if usual is not None else "")


def wait_end(refusal: Refusal, said: datetime, idle: str = "") -> str:
    """Say when a refusal ends that was stated at `said`; begins with a verb. `idle` is why nothing moves."""
    end = refusal.end
    if idle == NO_CONTROLLER and not end.is_never:
        return DOES_NOT_GO_ON
    if get_known_time(said) is None and end.after is not None:
        return f"goes on in {format_rest(end.after)}{_EARLIEST}"
    return end_text(end.until(said), end.event, said)


def domains_text(domains: Mapping[str, _Likely]) -> str:
    """Name the domains that may receive a replacement, nodes last; "any feasible node" where none is known."""
    named = [
        f"{short_key(key)} {'/'.join(likely.values)}{f' or {likely.more} more' if likely.more else ''}"
        for key, likely in sorted(domains.items(), key=lambda item: item[0] == HOSTNAME)
        if likely.values
    ]
    return ", ".join(named) or "any feasible node"


def portion(number: int, total: int, noun: str, verb: str) -> str:
    """Say how many of all do something; `verb` is in the plural: `1 of 2 limits hold`, `1 of 1 limit holds`."""
    return f"{number} of {plural(total, noun)} {verb}{'s' if total == 1 else ''}"


def workload_names(workloads: Sequence[_Named]) -> str:
    """List the first workloads with their kinds and count the others."""
    shown = ", ".join(f"{workload.name} ({workload.kind})" for workload in workloads[:3])
    return shown + (f" and {len(workloads) - 3} more" if len(workloads) > 3 else "")


def conflict_text(conflict: Conflict) -> str:
    """Name a domain and its pods that conflict: `a-1: web-0, web-1 of Deployment shop/web`."""
    sides = [f"{name_list(pod.name for pod in side.pods)} of {side.workload}" for side in conflict.sides[:FEW]]
    more = len(conflict.sides) - FEW
    return f"{conflict.domain}: {', '.join(sides)}{f' and {more} more' if more > 0 else ''}"


def counts_change(before: Mapping[str, int], after: Mapping[str, int], *, wide: bool = False) -> str:
    """Show counts by domain, before and after; `after` is empty if not known.

    Many domains are summarized unless `wide`.
    """
    listed = list_counts(before, after)
    return listed_text(listed, wide=wide)


def listed_text(listed: ListedCounts, *, wide: bool = False) -> str:
    """Show listed counts, before and, if they differ, after; see `counts_change`."""
    before, after = listed.before, listed.after
    unchanged = not after or after == before
    if len(before) + listed.empty > FEW and not wide:
        start, end = _range(before, listed.empty), _range(after, listed.empty)
        return start if unchanged else f"{start} -> {end}"
    start = " ".join(f"{domain or '(empty)'}:{count}" for domain, count in before.items()) or "no domains"
    end = "" if unchanged else f" -> {' '.join(map(str, after.values()))}"
    others = f" ({plural(listed.empty, 'empty domain')} more)" if listed.empty else ""
    return f"{start}{end}{others}"


def _range(counts: Mapping[str, int], empty: int) -> str:
    least = 0 if empty else min(counts.values(), default=0)
    return f"{least} to {max(counts.values(), default=0)} over {len(counts) + empty} domains"


def proof_text(evictions: int, lower_bound: int) -> str:
    """Say how many evictions a repair takes, and whether that is the proved minimum."""
    if evictions == lower_bound:
        return f"{plural(evictions, 'eviction')} (proved minimum)"
    return f"{plural(evictions, 'eviction')} (lower bound {lower_bound}, gap {evictions - lower_bound})"


def uncounted_text(repairs: int) -> str:
    """Say that repairs are left out of a number of evictions."""
    return f"without {plural(repairs, 'repair')} that {'waits' if repairs == 1 else 'wait'} for a pod"


def unsatisfiable_text(limits: int) -> str:
    """Say that limits which count as violated are within their bounds; "" where none is."""
    return f"{limits} within bounds, but without a placement that satisfies it" if limits else ""


def why_no_fewer(group: ComponentPlan) -> str:
    """Say why no fewer evictions repair a group, and why the repair may take more; "" if no number is known."""
    return "; ".join(str(fact) for fact in (group.proof, group.detour) if fact is not None)


class _Parts(Protocol):
    @property
    def now(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def later(self) -> int: ...

    @property
    def blocked(self) -> int: ...


def numbers_text(numbers: _Parts) -> str:
    """List the parts of a repair's evictions that are not zero: `1 now, 3 waiting`."""
    parts = ((name, getattr(numbers, name)) for name in ("now", "waiting", "later", "blocked"))
    return ", ".join(f"{number} {name}" for name, number in parts if number)


def repair_cost(group: ComponentPlan, numbers: PlanNumbers) -> str:
    """Say how many evictions the whole or partial repair of a group takes, and their parts."""
    if group.evictions:
        return f"{proof_text(group.evictions, group.lower_bound)}: {numbers_text(numbers)}"
    return f"{plural(numbers.partial, 'eviction')} for a partial repair: {numbers_text(numbers)}"


def component_text(group: ComponentPlan, relaxations: Relaxations = NO_RELAXATIONS) -> str:
    """Say why a component is not, or not fully, repaired now, and what would make it feasible; "" if it is repaired."""
    return "" if group.refusal is None else f"{group.refusal}{relaxations.get(group.name, '')}"


def eviction_text(eviction: Eviction) -> str:
    """Return why a pod of this node is evicted: the counts and bounds of its domains.

    Also say which pods are preempted for its replacement, and its grace period if that is unusually long.
    """
    parts = []
    for requirement in eviction.repair.violated:
        domain = requirement.domain.get(eviction.pod.node or "")
        if domain is not None:
            parts.append(
                f"{requirement.key} {domain} holds {plural(requirement.held[domain], 'pod')}, "
                f"the emptiest domain {requirement.emptiest}, {_requirement_text(requirement)}"
            )
    parts += filter(None, [_term_text(term, eviction.pod.node or "") for term in eviction.repair.apart])
    why = "; ".join(parts) or "a pending pod finds a node once this pod is evicted"
    why += preempted_text(eviction)
    grace = timedelta(seconds=eviction.pod.grace_seconds)
    if grace <= _LONG_GRACE:
        return why
    return f"{why}. The pod may take {format_duration(grace)} to end (terminationGracePeriodSeconds)"


def _term_text(term: ViolatedTerm, node: str) -> str:
    """Say which pods of a domain a term keeps apart; "" if the node has no such pods."""
    domain = term.domain.get(node)
    pods = term.together.get(domain, ()) if domain is not None else ()
    if not pods:
        return ""
    declared = name_list(map(str, term.declared))
    kind = f"preferred podAntiAffinity (weight {term.weight})" if term.weight else "required podAntiAffinity"
    return f"{term.key} {domain} holds {name_list(pods)}, which {kind} of {declared} keeps apart"


def preempted_text(eviction: Eviction) -> str:
    """Say which pods are preempted for the replacement of an eviction; "" if none. Continues a sentence."""
    outcomes = [f"{name_list(map(str, one.pods))} on {one.node}" for one in eviction.repair.preempts]
    return f". kube-scheduler preempts {', or '.join(outcomes)} for its replacement" if outcomes else ""


def _requirement_text(requirement: ViolatedRequirement) -> str:
    if requirement.limit:
        return f"limit {requirement.limit} ({requirement.bound})"
    return f"maxSkew is {requirement.bound}"


def certainty(eviction: Eviction) -> str:
    """Say how certain it is that an eviction helps, and whether the repair may take another eviction."""
    text = "forced" if eviction.forced else "predicted, not forced"
    return f"{text}; the repair may take one eviction above the minimum" if eviction.repair.extra else text


def limit_change(limit: EvaluatedLimit, evictions: Sequence[Eviction], snapshot: Snapshot) -> str:
    """Show a limit with the count of its worst domain, before and after, and whether it stays violated."""
    pods = f" of {key_text(limit.key)}" if limit.key else ""
    bound = f"{limit.rule.bound} per {short_key(limit.topology_key)}"
    text = f"limit {limit.group}/{limit.limit}{pods} ({bound}): {_worst_count(limit)}"
    expected = expected_worst(limit, evictions, snapshot)
    stays = f"no placement satisfies it ({limit.reason})" if limit.state is State.INFEASIBLE else ""
    if expected is None:
        return f"{text}; {stays}" if stays else text
    number, certain = expected
    stays = f"; helps, and stays violated: {stays}" if stays else ""
    return f"{text} -> {'' if certain else 'at most '}{_count_text(limit, number)}{stays}"


def _worst_count(limit: EvaluatedLimit) -> str:
    if limit.max_skew is not None:
        return f"skew {limit.maximum - limit.minimum}"
    count = _count_text(limit, limit.minimum if limit.min_pods is not None else limit.maximum)
    return f"{count} in {limit.worst}" if limit.worst is not None else count


def _count_text(limit: EvaluatedLimit, number: int) -> str:
    if limit.max_skew is not None:
        return str(number)
    percent = f" ({round(100 * number / limit.total)}%)" if limit.total else ""
    return f"{number} of {limit.total}{percent}"


def unsatisfied_limits(limits: Iterable[EvaluatedLimit]) -> list[EvaluatedLimit]:
    """Return the limits that are not satisfied."""
    return [limit for limit in limits if limit.state is not State.SATISFIED]


def prediction_summary(prediction: Prediction) -> str:
    """Say in one or two sentences where the scheduler would place the pod, and how certain that is."""
    caveat = f" Not predictable: {prediction.unpredictable.message}." if prediction.unpredictable is not None else ""
    if not prediction.feasible:
        outlook = prediction.preemption
        preempts = "" if outlook is None or outlook.excluded else f" It would {describe_preemptions(outlook)}."
        return f"{prediction.pod} would stay Pending: {prediction.failure}{preempts}{caveat}"
    feasible = f"{portion(len(prediction.feasible), len(prediction.nodes), 'node', 'fit')} {prediction.pod}"
    certain = ", ".join(f"{key}={value}" for key, value in prediction.certain.items())
    certain_text = f" Certain: {certain}." if certain else ""
    return f"{feasible}; {_scheduler_choice(prediction)}.{certain_text}{caveat}"


def _scheduler_choice(prediction: Prediction) -> str:
    sample = ""
    if prediction.sampled:
        sample = f" of the {prediction.scored:,} that it scores (percentageOfNodesToScore: 100 makes it score all)"
        if prediction.candidates == prediction.feasible:
            return f"kube-scheduler may pick any of them: it picks the best{sample}"
    names = sorted(prediction.candidates)
    more = f" or {len(names) - _MOST_NODES} more" if len(names) > _MOST_NODES else ""
    one_of = "" if len(names) == 1 else "one of "
    best = f": the best{sample}" if sample else ""
    return f"kube-scheduler picks {one_of}{', '.join(names[:_MOST_NODES])}{more}{best}"


def flaw_name(flaw: Flaw) -> str:
    """Return the name of a flaw in documents."""
    return "".join(part.capitalize() for part in flaw.name.split("_"))


class _Attempt(Protocol):
    @property
    def method(self) -> str: ...

    @property
    def answered(self) -> bool: ...

    @property
    def rejected(self) -> Mapping[str, int]: ...

    @property
    def limit_reached(self) -> bool: ...


def method_lines(method: str | None, attempts: Iterable[_Attempt]) -> Iterator[str]:
    """Yield which method found the step of a component, and the result of each other method."""
    if method is not None:
        yield f"found by {_METHODS[method]}"
    for attempt in attempts:
        if not attempt.answered:
            yield f"not by {_METHODS[attempt.method]}: {_outcome(attempt)}"


def _outcome(attempt: _Attempt) -> str:
    parts = [f"{plural(number, 'candidate')} rejected, {_FLAWS[flaw]}" for flaw, number in attempt.rejected.items()]
    if attempt.limit_reached:
        parts.append("the search limit was reached")
    return "; ".join(parts) or "it does not apply"
