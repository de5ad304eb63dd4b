"""The smallest change after which every size has a placement that pods reach: the first of a fixed order that works.

The order: maxSkew + 1 of one constraint, the finer key first; one node more in the smallest zone; minDomains no larger
than the number of domains; no longer counting domains that take no pods; ScheduleAnyway for one constraint, the finer
key first. Each is tried on the model, for all sizes; a change that helps only some of them does not count.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rebalancer.assessment.sizes.layout import NO_RULE, Rule, SizeProblem, add_domain, evaluate_sizes
from rebalancer.model.words import short_key


class SizeNames(NamedTuple):
    """The names of a problem's keys in messages; `coarse` is "" if there is one key. `smallest` is the first zone."""

    fine: str
    coarse: str
    smallest: str


def find_change(problem: SizeProblem, honored: SizeProblem | None, names: SizeNames) -> str:
    """Return the first change that leaves no size without a placement, as an imperative; "" if none is enough.

    `honored` is the problem with both inclusion policies Honor, None if that changes nothing.
    """
    return next((text for text, changed in _changes(problem, honored, names) if not evaluate_sizes(changed).number), "")


class _Level(NamedTuple):
    """A hard constraint of a problem; `put` returns the problem with another constraint in its place."""

    key: str
    rule: Rule
    put: Callable[[Rule], SizeProblem]


def _levels(problem: SizeProblem, names: SizeNames) -> list[_Level]:
    """Return the hard constraints, the constraint over the finer key first."""
    levels = [
        _Level(names.fine, problem.fine, lambda rule: problem._replace(fine=rule)),
        _Level(names.coarse, problem.coarse, lambda rule: problem._replace(coarse=rule)),
    ]
    return [level for level in levels if level.rule.max_skew is not None]


def _changes(problem: SizeProblem, honored: SizeProblem | None, names: SizeNames) -> Iterator[tuple[str, SizeProblem]]:
    levels = _levels(problem, names)
    for key, rule, put in levels:
        more = (rule.max_skew or 0) + 1
        yield f"Raise maxSkew over {key} to {more}", put(rule._replace(max_skew=more))
    where = f" in {names.smallest}" if names.coarse else ""
    yield f"Add a {short_key(names.fine)}{where}", add_domain(problem)
    for key, rule, put in levels:
        if rule.floor_at_zero:
            fewer = rule._replace(min_domains=rule.domains)
            yield f"Lower minDomains over {key} to {rule.domains}", put(fewer)
    if honored is not None:
        yield "Set nodeTaintsPolicy and nodeAffinityPolicy of its constraints to Honor", honored
    for key, _, put in levels:
        yield f"Set whenUnsatisfiable of the constraint over {key} to ScheduleAnyway", put(NO_RULE)


def find_forbidding(problem: SizeProblem, names: SizeNames) -> tuple[str, ...]:
    """Return the constraints that leave sizes without a placement: alone, or both together."""
    levels = _levels(problem, names)
    alone = [
        level
        for level in levels
        if all(evaluate_sizes(other.put(NO_RULE)).number for other in levels if other is not level)
    ]
    return tuple(_describe(level) for level in alone or levels)


def _describe(level: _Level) -> str:
    rule = level.rule
    domains = f", minDomains {rule.min_domains} with {rule.domains} there" if rule.floor_at_zero else ""
    return f"{level.key} (maxSkew {rule.max_skew}{domains})"
