"""A seed is a whole schedule: the same one every time, in one line, and over many seeds everything happens."""

import dataclasses
from collections import Counter

import pytest

from tests.faults.choosing import Chooser
from tests.faults.matrix import EVERY, schedule_of
from tests.faults.replicas import FEW, MANY
from tests.faults.requests import Target
from tests.faults.schedule import POSSIBLE, Fault, Rule, Schedule, Start, draw, draw_quick, kill_after

EVICTION = Target(verb="create", resource="pods/eviction")
WATCH = Target(verb="watch", resource="pods")
LIST = Target(verb="list", resource="pods")


def schedule(*rules: Rule) -> Schedule:
    return Schedule(seed=1, rules=rules)


def rule(fault: Fault, target: Target = EVICTION, *, process: int | None = None, **fields: float) -> Rule:
    return Rule(verb=target.verb, resource=target.resource, fault=fault, process=process, **fields)  # type: ignore[arg-type]


def test_a_seed_is_a_schedule() -> None:
    """Twice drawn it is equal; another seed is another schedule."""
    assert [draw(seed) for seed in range(200)] == [draw(seed) for seed in range(200)]
    assert len({str(draw(seed)).partition(":")[2] for seed in range(200)}) == 200


def test_a_schedule_is_one_line() -> None:
    text = str(draw(8))
    assert "\n" not in text
    assert text.startswith("seed 8: ")
    assert all(str(rule) in text for rule in draw(8).rules)


def test_a_number_repeats_the_schedule_that_has_it() -> None:
    """What is printed of a failed run is the command with its number: no two schedules have the same one."""
    made = [*EVERY, *FEW, *MANY]
    assert [schedule_of(one.seed) for one in made] == made
    assert len({one.seed for one in made}) == len(made)
    assert (len(FEW), len(MANY)) == (3, 84)
    assert schedule_of(17) == draw(17)


def _is_repeated_event(rule: Rule) -> bool:
    return (rule.verb, rule.resource) == ("patch", "events")


def test_every_fault_of_a_write_happens_to_the_patch_of_a_repeated_event() -> None:
    """An eviction that is refused twice comes before it: else no event would be repeated."""
    repeated = [one for one in EVERY if any(_is_repeated_event(rule) for rule in one.rules)]
    assert {rule.fault for one in repeated for rule in one.rules if _is_repeated_event(rule)} == set(POSSIBLE["write"])
    for one in repeated:
        refusals = next(rule for rule in one.rules if rule.covers(EVICTION))
        assert (refusals.count, one.seconds > 20, one.patience) == (2, True, 200.0)


def test_over_many_seeds_everything_is_drawn() -> None:
    """Every fault, pauses, unready pods, two controllers, every beginning, all bounds."""
    drawn = [draw(seed) for seed in range(1, 401)]
    faults = Counter(rule.fault for one in drawn for rule in one.rules)
    assert set(faults) == set(Fault)
    assert {one.start for one in drawn} == set(Start)
    assert {one.controllers for one in drawn} == {1, 2}
    assert {clock.rate for one in drawn for clock in one.clocks} == {1.0, 1.4}
    assert any(clock.ahead for one in drawn for clock in one.clocks)
    assert any(one.stops for one in drawn)
    assert {one.max_unavailable for one in drawn} == {1, 2, 3}
    assert any(one.pause_at is not None for one in drawn)
    assert any(one.unready_at is not None for one in drawn)
    assert sum(any(rule.covers(EVICTION) for rule in one.rules) for one in drawn) > 80


def test_quick_schedules_have_nothing_that_must_be_awaited() -> None:
    """An eviction that never arrived may still arrive for two minutes; a refusal that lasts is repeated after five."""
    seeds = draw_quick(20)
    assert len(set(seeds)) == 20
    for one in map(draw, seeds):
        faults = {rule.fault for rule in one.rules if rule.covers(EVICTION)}
        assert not faults & {Fault.TIMEOUT, Fault.RESET, Fault.FORBIDDEN, Fault.UNAVAILABLE}
        assert one.controllers == 1


@pytest.mark.parametrize(
    ("one", "patience"),
    [
        (schedule(), 45),
        (schedule(rule(Fault.LOST)), 45),
        (schedule(rule(Fault.ERROR, WATCH)), 45),
        (schedule(Rule(verb="patch", resource="leases", fault=Fault.LOST)), 180),
        (schedule(rule(Fault.FORBIDDEN)), 480),
        (schedule(Rule(verb="*", resource="*", fault=Fault.RESET)), 480),
        (kill_after(3), 180),
    ],
)
def test_patience_is_as_long_as_the_controller_has_reason_to_wait(one: Schedule, patience: float) -> None:
    assert one.patience == patience


def test_a_rule_for_names_spares_other_objects() -> None:
    chooser = Chooser(schedule(Rule(verb="create", resource="pods/eviction", name="web-", fault=Fault.ERROR)))
    assert chooser.choose(dataclasses.replace(EVICTION, name="db-0")) is None
    assert chooser.choose(dataclasses.replace(EVICTION, name="web-0")) is not None


def test_a_rule_counts_its_requests() -> None:
    """The second and the third of its verb and resource; others are not counted."""
    chooser = Chooser(schedule(rule(Fault.ERROR, first=2, count=2)))
    chosen = [chooser.choose(target) for target in (EVICTION, WATCH, EVICTION, EVICTION, EVICTION)]
    assert [one and one.fault for one in chosen] == [None, None, Fault.ERROR, Fault.ERROR, None]


def test_a_rule_with_a_probability_hits_the_same_requests_every_time() -> None:
    def hits() -> list[bool]:
        chooser = Chooser(schedule(rule(Fault.ERROR, probability=0.3)))
        return [chooser.choose(EVICTION) is not None for _ in range(200)]

    assert hits() == hits()
    assert 30 < sum(hits()) < 90


def test_a_rule_of_one_controller_spares_the_other() -> None:
    faults = schedule(rule(Fault.ERROR, process=1))
    assert Chooser(faults, 0).choose(EVICTION) is None
    assert Chooser(faults, 1).choose(EVICTION) is not None


def test_a_rule_for_everything_leaves_events_alone() -> None:
    """Events are what a watch delivers: no request for an eviction is duplicated or reordered."""
    chooser = Chooser(schedule(Rule(verb="*", resource="*", fault=Fault.DROPPED, probability=1.0)))
    assert chooser.choose(EVICTION) is None
    assert chooser.choose(WATCH) is not None


@pytest.mark.parametrize(
    ("present", "how"),
    [
        (rule(Fault.ERROR, LIST), Fault.GONE),
        (rule(Fault.ERROR, WATCH), Fault.RESET),
        (rule(Fault.SILENT, WATCH), None),
        (rule(Fault.ERROR, EVICTION), None),
    ],
)
def test_an_open_watch_ends_where_a_rule_needs_a_new_request(present: Rule, how: Fault | None) -> None:
    assert Chooser(schedule(present)).interrupts(WATCH) is how
