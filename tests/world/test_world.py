"""The controller in a seeded world: whatever is drawn, no promise is broken, and a lost safeguard is noticed."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rebalancer.documents.memory import memory_text
from tests.drawing import sampled, scaled
from tests.world.safeguards import SAFEGUARDS, without
from tests.world.scenarios import LATE, PAIR, SCENARIOS
from tests.world.schedule import BRIEF, WHOLE, Cut
from tests.world.shrink import command, leave_out, shrink
from tests.world.world import CROWDED_MEMORY, World, quiet, run

ROOT = Path(__file__).resolve().parents[2]

CHUNKS, SEEDS = 4, 25
"""So many chunks of so many seeds; `python -m tests.world FIRST LAST` runs any others."""

EVICTIONS, FAULTS = 10, 1
"""An hour, at least: a world without them shows nothing."""

THOROUGH_SEEDS = 100_000
"""Each is 35 simulated minutes. WORLD_SEEDS=FIRST-LAST runs a part of them."""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken(chunk: int) -> None:
    """Faults of the network, crashes, lags, operators and other controllers, several at once, in any order."""
    first = chunk * SEEDS + 1
    results = [run(seed) for seed in range(first, first + scaled(SEEDS))]
    broken = {result.seed: result.breaches for result in results if result.breaches}
    assert broken == {}, "python -m tests.world SEED shows what happened"
    hours = sum(result.seconds for result in results) / 3600
    assert sum(result.evictions for result in results) >= EVICTIONS * hours
    assert min(result.faults / result.seconds for result in results) >= FAULTS / 3600
    assert min(result.nodes for result in results) >= 6
    assert min(result.pods for result in results) >= 30


@pytest.mark.thorough
def test_no_promise_is_broken_by_any_seed() -> None:
    """The same for less time of a hundred thousand seeds, or of the part of them that WORLD_SEEDS names."""
    first, _, last = os.environ.get("WORLD_SEEDS", f"1-{THOROUGH_SEEDS}").partition("-")
    subprocess.run([sys.executable, "-m", "tests.world", first, last, "--brief"], cwd=ROOT, check=True)


def test_a_seed_gives_one_history() -> None:
    """Byte for byte: every request, every change of the cluster, every note."""
    assert run(7).digest == run(7).digest
    assert run(7).digest != run(8).digest


NOTICED: Mapping[str, tuple[int, str]] = {
    "pause is read before a request": (3, "after a pause was stored"),
    "pause is read again soon": (7, "after a pause was stored"),
    "slow answers about a pause hold": (20, "after a pause was stored"),
    "ready pods are read before a step": (56, "are not Ready"),
    "silent watches hold": (14, "on a view that is"),
    "memory is saved before requests": (7, "the stored memory does not know"),
    "lease runs out before others take it": (9, "after another process took the lease"),
    "memory is only written over what was read": (127, "stores a memory without the moves"),
    "unanswered requests count as sent": (90, "as refused, and it took place"),
    "memory of the last leader is read": (6, "stores a memory without the moves"),
    "own moves overlay the snapshot": (33, "stores a memory without the moves"),
    "replacements are recognised by uid": (1, "its owner was not changed"),
    "overtaken moves end": (36, "its owner has all its pods"),
    "refused groups back off": (5, "7 times in 300s"),
    "one refusal holds one group": (34, "requests none"),
    "overloaded servers are left alone": (28, "asked it to wait"),
    "old plans are not begun": (17, "on a plan that is"),
    "begun steps are finished": (3, "leaves a step"),
    "workloads keep enough pods": (7, "are not Ready"),
    "moves are stored": (1, "the stored memory does not know"),
    "lost moves are not forgotten": (4, "its owner has all its pods"),
    "memory stays small": (3, "the memory is not stored at the end"),
    "few ended moves are stored": (21, "the memory is not stored at the end"),
    "moves in flight are stored whatever else is": (3, "stores a memory without the moves"),
    "events are not lost while others are handled": (9, "runs no cycles at the end"),
    "only what is approved is admitted": (57, "nobody has approved"),
    "approvals are of the present proposal": (12, "nobody has approved"),
    "what a whole approval allows is charged": (18, "by an approval of"),
    "a whole approval covers its workloads alone": (45, "nobody has approved"),
    "a whole approval ends with its time": (18, "after the time of its approval"),
}
"""For each safeguard a seed whose run without it breaks a promise, and which one."""


def test_every_safeguard_has_a_seed() -> None:
    """None is left out of the list."""
    assert NOTICED.keys() == SAFEGUARDS.keys()


@pytest.mark.parametrize("name", sampled(NOTICED))
def test_a_lost_safeguard_is_noticed(name: str) -> None:
    """A seed breaks a promise without this one; with all of them it breaks none, as every seed."""
    seed, promise = NOTICED[name]
    with without(name):
        assert any(promise in breach for breach in run(seed).breaches)


# Scenarios


def test_every_scenario_is_drawn() -> None:
    """Within the seeds of the ordinary run."""
    assert {World(seed).scenario for seed in range(1, 61)} == SCENARIOS.keys()


@pytest.mark.parametrize("scenario", sampled(SCENARIOS))
def test_a_scenario_can_be_forced(scenario: str) -> None:
    """Whatever the seed would have drawn."""
    result = run(1, scenario)
    assert result.scenario == scenario
    assert result.breaches == []


def test_some_worlds_are_crowded() -> None:
    """Their violations alone are more than can be stored, and the repair goes on."""
    crowded = [seed for seed in range(1, 41) if World(seed).crowded]
    assert 4 <= len(crowded) <= 12
    world = World(crowded[0])
    result = world.run()
    assert result.breaches == []
    assert result.evictions > 0
    record = world.api.lease.read()
    assert record is not None
    leader = next(replica for replica in world.replicas if replica.name == record.holder)
    whole, stored = leader.runner.state.memory, world.monitor.records.stored
    assert len(memory_text(whole)) > CROWDED_MEMORY  # outside of the run the bound is that of a real cluster
    assert len(whole.seen) >= 120
    assert stored.seen == ()


def test_a_node_that_joins_late_gets_pods() -> None:
    """Two nodes and a soft constraint: half of the pods are on the second one in the end."""
    world = World(3, "late node")
    world.run()
    pods = [pod.node for pod in world.state.store.pods if pod.namespace == PAIR and not pod.terminating]
    assert len(pods) // 2 <= pods.count(LATE) + 1


def test_a_webhook_that_refuses_for_ever_stops_no_other_workload() -> None:
    """Without any other fault, what it does not concern is repaired, and its own namespace loses no pod."""
    world = World(5, "refusing webhook, no other fault")
    result = world.run()
    assert result.breaches == []
    granted = {move.namespace for move in world.monitor.records.moves}
    assert granted
    assert granted.isdisjoint(world.refusing)


def test_a_stranger_who_writes_the_status_all_the_time_stops_no_repair() -> None:
    """Sixteen times a second, beside all other faults: repairs go on, and no promise about the memory is broken."""
    world = World(5)
    silent = World(5).run()

    def scribble() -> None:
        world.api.version += 1
        world.api.documents = {**world.api.documents, "theirs": str(world.api.version)}
        world.hub.after(1 / 16, scribble)

    world.hub.after(60, scribble)
    result = world.run()
    assert result.breaches == []
    assert result.evictions >= silent.evictions / 2 > 0


def test_approvals_are_needed_and_serve() -> None:
    """In mode Approve some evictions take place, and none without approval, with late and outdated approvals too."""
    world = World(2, "approvals")
    result = world.run()
    assert result.evictions > 0
    assert any("is approved" in note for note in result.notes)
    assert all(world.monitor.records.is_approved(move) for move in world.monitor.records.moves)


def run_approvals(seeds: range) -> tuple[dict[int, list[str]], int]:
    """Run worlds in mode Approve; return their breaches, and how many evictions approvals of whole plans have made."""
    broken: dict[int, list[str]] = {}
    taken = 0
    for seed in seeds:
        world = World(seed, "approvals")
        with quiet():
            breaches = world.run().breaches
        if breaches:
            broken[seed] = breaches
        taken += world.monitor.records.taken_by_whole
    return broken, taken


def test_no_more_is_executed_than_approved() -> None:
    """Of whole plans: not more pods than allowed, of their workloads alone, nothing after the end or a withdrawal."""
    seeds = range(1, 1 + scaled(20))
    broken, taken = run_approvals(seeds)
    assert broken == {}
    assert taken >= len(seeds)


@pytest.mark.thorough
def test_no_more_is_executed_than_approved_by_any_seed() -> None:
    """The same of a hundred seeds."""
    broken, taken = run_approvals(range(1, 101))
    assert broken == {}
    assert taken >= 100


# Shrinking


def test_numbers_are_left_out_until_every_one_is_needed() -> None:
    """Whichever are needed, nothing else is left."""
    for needed in ({3}, {0, 9}, {1, 4, 5}, set(), set(range(10))):
        left = leave_out(range(10), lambda candidate, needed=needed: needed <= set(candidate))  # type: ignore[misc]
        assert set(left) == needed


@pytest.mark.parametrize("base", sampled([BRIEF, WHOLE]), ids=lambda cut: "brief" if cut is BRIEF else "whole")
def test_a_failing_run_is_shrunk_to_one_that_can_be_repeated(base: Cut) -> None:
    """It has fewer disturbances, breaks the same promise, and another process repeats it to the byte."""
    name = "pause is read again soon"
    seed, promise = NOTICED[name]
    with without(name):
        whole = run(seed, cut=base)
        cut, smaller = shrink(whole, cut=base)
    assert cut.disturbances is not None
    assert len(cut.disturbances) < whole.disturbances / 2
    assert promise in smaller.breaches[0]
    line = command(seed, "", cut, name)
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    again = subprocess.run(
        [sys.executable, *shlex.split(line)[1:]], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert f"digest {smaller.digest}" in again.stdout
