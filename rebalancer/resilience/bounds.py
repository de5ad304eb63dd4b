"""How many pods of each service run once a loss has settled, whatever kube-scheduler chooses: proved bounds.

Problem: pods that lost their node compete for what is left, in an order and with ties that nobody knows. Idea: every
state that can be reached satisfies some inequalities, all services jointly; over all that satisfies these, the fewest
and the most pods of one service are two integer programs, whose dual bounds hold even where they are not solved to the
end. For the fewest the service is also blocked in the end: on each node it lacks a resource, or a constraint closes it.

Example: 4, 4 and 4 pods, maxSkew 1, the third zone is silent. At first its pods still count, so that the first zone
may take one (4 + 1 <= 1 + 4); but that replaces a pod that was deleted (4 + 1 > 1 + 3). So 8 of 12 are left.

The least count of a constraint when a pod was placed is at most the one in the end, with the lost pods that were not
deleted by then: pods are only added, and a service has no more replacements than pods that were deleted or waited.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, gcd, inf
from typing import Final, NamedTuple

from rebalancer.model.facts import Fact
from rebalancer.model.pods import Resources
from rebalancer.planning.multi_class.milp import Program, minimize
from rebalancer.planning.multi_class.outcomes import Unsolved
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.resilience.loss import Loss, Service
from rebalancer.resilience.rules import Rule, find_rules, is_spread_on
from rebalancer.scheduling.feasibility import admissible, is_on
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit, drop_ignored_resources
from rebalancer.scheduling.pod_topology_spread import constraints_of
from rebalancer.scheduling.view import View

_LIMITS: Final = SearchLimits()
_CLOSE: Final = 1e-6

Row = dict[int, float]


class DependsOnPods(Fact):
    """Where its pods may be placed depends on single nodes or other pods in ways that no bound counts."""

    what: str

    def __str__(self) -> str:
        return f"its pods have {self.what}: how many find a node again is not bounded from below"


class PreemptionDecides(Fact):
    """Pods of a higher priority may take the place of others."""

    by: str

    def __str__(self) -> str:
        return f"pods of {self.by}, of a higher priority than others, may wait and preempt some"


class Bounds(NamedTuple):
    """The fewest and the most pods of a service once nothing moves; `unknown` says why the fewest is not better."""

    guaranteed: int
    possible: int
    unknown: Fact | None = None


def find_bounds(loss: Loss, work: int = _LIMITS.solve_work) -> Sequence[Bounds]:
    """Return the bounds of each service of a loss, in their order."""
    programs = _Programs(loss, work)
    found = [programs.bound(number) for number in range(len(loss.services))]
    preemptor = _find_preemptor(loss, programs, found)
    if preemptor is None:
        return found
    priority, reason = preemptor
    return [
        _without_bounds(service, 0 if service.sample.spec.priority < priority else service.bound, reason)
        for service in loss.services
    ]


def _without_bounds(service: Service, least: int, reason: Fact) -> Bounds:
    return Bounds(least, service.bound + service.pending, reason)


def _find_preemptor(loss: Loss, programs: "_Programs", found: Sequence[Bounds]) -> tuple[int, Fact] | None:
    """Return the highest priority of a service that may preempt others, None where none ever does.

    One whose pods all find a node, however many others stand on it first, and that no constraint closes for a time,
    never fails to be scheduled.
    """
    lowest = min((placed.pod.spec.priority for placed in loss.after.placed_pods()), default=0)
    lowest = min([lowest, *[service.sample.spec.priority for service in loss.services if service.pending]])
    preempting = [
        service
        for number, service in enumerate(loss.services)
        if service.pending and service.sample.spec.preempts and service.sample.spec.priority > lowest
        if programs.rules[number] or found[number].guaranteed < service.bound + service.pending
    ]
    if not preempting:
        return None
    first = max(preempting, key=lambda service: service.sample.spec.priority)
    return first.sample.spec.priority, PreemptionDecides(str(first.workload or first.sample))


class _Programs:
    """The programs of one loss: what all have in common, and the two of each service."""

    def __init__(self, loss: Loss, work: int) -> None:
        self._loss, self._work = loss, work
        self._services = loss.services
        spread = is_spread_on(loss)
        self.rules: list[list[Rule]] = [
            [*find_rules(service, loss)] if spread and service.pending and service.unknown is None else []
            for service in self._services
        ]
        self._places = [sorted(self._find_places(service)) for service in self._services]
        self._requests = [drop_ignored_resources(one.sample.requests, loss.after.profile) for one in self._services]
        self._free = _Free(loss.after, self._requests)
        self._program = Program()
        self._columns: dict[tuple[int, str], int] = {
            (number, node): self._program.add_column(0, self._services[number].pending)
            for number, nodes in enumerate(self._places)
            for node in nodes
        }
        self._add_common()

    def _find_places(self, service: Service) -> Iterable[str]:
        """Return the nodes on which a pod of a service may be placed at any moment, and perhaps others."""
        if not service.pending:
            return ()
        after = self._loss.after
        if service.unknown is not None:
            return after.nodes.names - self._loss.nodes
        nodes = admissible(service.sample, after) - self._loss.nodes
        if is_spread_on(self._loss):
            for constraint in constraints_of(service.sample, after).hard:
                nodes &= after.nodes.values(constraint.key).keys()
        return nodes

    def bound(self, number: int) -> Bounds:
        """Return the bounds of one service."""
        service = self._services[number]
        if not service.pending:
            return Bounds(service.bound, service.bound, service.unknown)
        possible = service.bound + self._find_most(number)
        unknown = service.unknown or _find_dependence(service, self._loss)
        if unknown is not None:
            return Bounds(service.bound, possible, unknown)
        return Bounds(service.bound + self._find_fewest(number), possible)

    def _find_most(self, number: int) -> int:
        program = self._copy()
        for column in self._row(number, self._places[number]):
            program.costs[column] = -1
        answer = minimize(program, _LIMITS, self._work)
        pending = self._services[number].pending
        return pending if isinstance(answer, Unsolved) else min(pending, floor(_CLOSE - answer[1]))

    def _find_fewest(self, number: int) -> int:
        program, pending = self._copy(), self._services[number].pending
        own = self._row(number, self._places[number])
        for column in own:
            program.costs[column] = 1
        program.add_row(-inf, pending - 1, own)
        closed = [self._add_closed(program, rule) for rule in self.rules[number]]
        for node in self._places[number]:
            choices = self._add_lacking(program, number, node)
            if choices is None:
                continue
            for rule, columns in zip(self.rules[number], closed, strict=True):
                choices.update(dict.fromkeys(columns.get(rule.domain[node], ()), 1.0))
            program.add_row(1, inf, choices)
        answer = minimize(program, _LIMITS, self._work)
        if answer is Unsolved.INFEASIBLE:
            return pending
        return 0 if isinstance(answer, Unsolved) else max(0, ceil(answer[1] - _CLOSE))

    def _copy(self) -> Program:
        one = self._program
        return Program([*one.costs], [*one.lower], [*one.upper], [*one.whole], [*one.rows])

    def _row(self, number: int, nodes: Iterable[str]) -> Row:
        return {self._columns[number, node]: 1 for node in nodes}

    def _add_common(self) -> None:
        for number, service in enumerate(self._services):
            if self._places[number]:
                self._program.add_row(-inf, service.pending, self._row(number, self._places[number]))
        for node in self._loss.after.nodes.names:
            for resource, free in self._free.of(node):
                row = {
                    self._columns[number, node]: float(self._free.amount(number, resource))
                    for number in range(len(self._services))
                    if (number, node) in self._columns and self._free.amount(number, resource)
                }
                if row:
                    self._program.add_row(-inf, max(0, free), row)
        for number, rules in enumerate(self.rules):
            for rule in rules:
                self._add_rule(number, rule)

    def _count(self, rule: Rule, domain: str) -> Row:
        """Return the columns of the replacements that a rule counts in a domain."""
        counted = [number for number, service in enumerate(self._services) if rule.counts(service.sample)]
        nodes = [node for node in rule.eligible if rule.domain[node] == domain]
        return {
            self._columns[number, node]: 1 for number in counted for node in nodes if (number, node) in self._columns
        }

    def _by_domain(self, number: int, rule: Rule) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for node in self._places[number]:
            found.setdefault(rule.domain[node], []).append(node)
        return found

    def _add_rule(self, number: int, rule: Rule) -> None:
        """Add what held when the last pod of a service was placed in each domain, and when the very last was."""
        program, service = self._program, self._services[number]
        most = max([*rule.base.values(), 0]) + service.pending + rule.max_skew
        domains = self._by_domain(number, rule)
        everywhere = self._row(number, self._places[number])
        lowest = program.add_column(0, most)
        for value in rule.base:
            if not rule.late.get(value):
                program.add_row(-inf, rule.base[value], {lowest: 1, **_negative(self._count(rule, value))})
        if rule.always_floored:
            program.upper[lowest] = 0
        last: Row = {}
        for value, nodes in domains.items():
            placed, base = self._row(number, nodes), rule.base.get(value, 0)
            some = program.add_column(0, 1)
            program.add_row(-inf, 0, {**placed, some: -service.pending})
            held: Row = dict.fromkeys(placed, rule.itself) if rule.itself and value in rule.base else {}
            slack = most + rule.max_skew
            program.add_row(-inf, rule.max_skew - base + slack, {**held, lowest: -1, some: slack})
            if rule.late:
                ends = program.add_column(0, 1)
                last[ends] = -service.pending
                program.add_row(-inf, 0, {ends: 1, some: -1})
                self._add_late(rule, service, base, held, some, placed)
                self._add_late(rule, service, base, held, ends, everywhere)
        if last:
            program.add_row(-inf, 0, {**everywhere, **last})

    def _add_late(self, rule: Rule, service: Service, base: int, held: Row, when: int, placed: Row) -> None:
        """Add what lost pods bound that were not deleted when a pod was placed: of `placed` by then, all replace some.

        The emptiest of the domains with lost pods holds at most the average of these.
        """
        program, total = self._program, sum(rule.late.values())
        many = len(rule.late)
        below = sum(rule.base[value] for value in rule.late)
        counted: Row = {}
        for value in rule.late:
            counted |= self._count(rule, value)
        slack = float(many * (base + service.pending + rule.max_skew) + total + service.pending)
        row: Row = {column: many * factor for column, factor in held.items()}
        row = _add(row, _negative(counted))
        bound = many * (rule.max_skew - base) + below + total + slack
        program.add_row(-inf, bound, {**row, when: slack})
        later = _add(row, placed)
        program.add_row(-inf, bound + service.waiting + rule.uncounted, {**later, when: slack})
        for value, number in rule.late.items():
            alone = _add(dict(held), _negative(self._count(rule, value)))
            program.add_row(-inf, rule.max_skew - base + rule.base[value] + number + slack, {**alone, when: slack})

    def _add_closed(self, program: Program, rule: Rule) -> Mapping[str, Sequence[int]]:
        """Add columns that are 1 only where a rule closes a domain in the end; return them by domain.

        The least count is exact: the count of one domain, and none is below it.
        """
        total = sum(service.pending for service in self._services)
        most = max([*rule.base.values(), 0]) + total
        lowest = program.add_column(0, 0 if rule.floored or not rule.base else most)
        least: Row = {}
        if not rule.floored:
            for value, base in rule.base.items():
                counted = _negative(self._count(rule, value))
                program.add_row(-inf, base, {lowest: 1, **counted})
                chosen = program.add_column(0, 1)
                least[chosen] = 1
                program.add_row(base - most, inf, {lowest: 1, **counted, chosen: -most})
            if least:
                program.add_row(1, 1, least)
        closed: dict[str, list[int]] = {}
        for value in {*rule.domain.values()}:
            base = rule.base.get(value, 0)
            column = program.add_column(0, 1)
            slack = most + rule.max_skew + 1
            counted = self._count(rule, value) if value in rule.base else {}
            row = {**counted, lowest: -1, column: -slack}
            program.add_row(rule.max_skew + 1 - rule.itself - base - slack, inf, row)
            closed[value] = [column]
        return closed

    def _add_lacking(self, program: Program, number: int, node: str) -> Row | None:
        """Add columns that are 1 only where a resource of a node is short in the end; None where one always is."""
        choices: Row = {}
        for resource, free in self._free.of(node):
            needs = self._free.amount(number, resource)
            short = free - needs + 1
            if not needs:
                continue
            if short <= 0:
                return None
            column = program.add_column(0, 1)
            row: Row = {
                self._columns[other, node]: float(self._free.amount(other, resource))
                for other in range(len(self._services))
                if (other, node) in self._columns and self._free.amount(other, resource)
            }
            program.add_row(0, inf, {**row, column: -float(short)})
            choices[column] = 1
        return choices


class _Free:
    """Free resources and requests by number, each resource in its greatest common unit: the solver has tolerances."""

    def __init__(self, view: View, requests: Sequence[Resources]) -> None:
        self._requests = [_amounts(one) for one in requests]
        self._view = view
        self._resources = sorted({name for one in self._requests for name in one})
        self._unit = {name: gcd(*[one.get(name, 0) for one in self._requests]) or 1 for name in self._resources}

    def of(self, node: str) -> Sequence[tuple[str, int]]:
        """Return how much of each resource a node has left, rounded down to whole units."""
        if not is_on(NodeResourcesFit, self._view):
            return ()
        taker, used = self._view.nodes.by_name[node], self._view.used(node)
        have = _amounts(taker.allocatable) | {"pods": taker.pods}
        taken = {
            "pods": used.pods,
            "cpu": used.cpu,
            "memory": used.memory,
            "ephemeral-storage": used.ephemeral_storage,
            **used.extended,
        }
        return [(name, (have.get(name, 0) - taken.get(name, 0)) // self._unit[name]) for name in self._resources]

    def amount(self, number: int, resource: str) -> int:
        """Return what a pod of a service requests of a resource."""
        return self._requests[number].get(resource, 0) // self._unit[resource]


def _amounts(resources: Resources) -> dict[str, int]:
    named = {
        "cpu": resources.cpu,
        "memory": resources.memory,
        "ephemeral-storage": resources.ephemeral_storage,
        **dict(resources.extended),
    }
    return {"pods": 1} | {name: amount for name, amount in named.items() if amount}


def _negative(row: Row) -> Row:
    return {column: -factor for column, factor in row.items()}


def _add(row: Row, other: Row) -> Row:
    return row | {column: row.get(column, 0) + factor for column, factor in other.items()}


def _find_dependence(service: Service, loss: Loss) -> Fact | None:
    """Return what of a service's pods no bound from below counts."""
    sample = service.sample
    if sample.claims or sample.drivers:
        return DependsOnPods("volumes of their own")
    if sample.spec.host_ports:
        return DependsOnPods("host ports")
    affinity = sample.spec.pod_affinity
    if affinity.required or affinity.anti_required:
        return DependsOnPods("required affinity or anti-affinity to pods")
    if any(True for _ in loss.before.repelling(sample)) or sample.nominated_node:
        return DependsOnPods("pods that keep them away, or a place that they have preempted")
    return None
