"""The worst loss of each workload against what must be left, and the same from another process."""

import threading
from dataclasses import replace
from io import BytesIO

import pytest
from msgspec import structs

from rebalancer.assessment.limit_groups import find_limit_groups
from rebalancer.controller.resilience import compute_elsewhere
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, PolicyGroup, Resilience, default_policy
from rebalancer.policy.resilience import GroupResilience
from rebalancer.policy.selectors import Selector
from rebalancer.resilience.__main__ import compute
from rebalancer.resilience.demands import Demands, find_demands
from rebalancer.resilience.rows import find_resilience
from rebalancer.resilience.transport import Question, receive_question, send_question
from rebalancer.resilience.worst import WorstLoss, find_worst
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.drawing import sampled
from tests.resilience.drawn import draw_loss

WEB, DB = Reference("shop", "Deployment", "web"), Reference("shop", "Deployment", "db")


def two_services() -> Snapshot:
    """Return a service with four pods in each of three zones, of which one has none left, and one on one node."""
    builder = ClusterBuilder()
    builder.zones("abc", 2)
    builder.deployment("web", on={"a-1": 3, "a-2": 3, "b-1": 2, "c-1": 1}, spread={ZONE: 5})
    builder.deployment("db", on={"b-1": 2})
    return builder.snapshot()


def policy_of(*groups: PolicyGroup, **fields: object) -> Policy:
    return default_policy().model_copy(update={"groups": groups, "resilience": Resilience(**fields)})


def group(name: str, app: str, **fields: object) -> PolicyGroup:
    return PolicyGroup(name=name, selector=Selector(match_labels={"app": app}), resilience=GroupResilience(**fields))


def demands_of(policy: Policy, snapshot: Snapshot) -> Demands:
    return find_demands(policy, find_limit_groups(View(snapshot), policy.groups))


def worst_of(policy: Policy, snapshot: Snapshot) -> tuple[WorstLoss, ...]:
    return find_worst(View(snapshot), demands_of(policy, snapshot)).losses


def test_the_worst_zone_of_each_workload_is_named_with_what_must_be_left() -> None:
    losses = worst_of(policy_of(phases=[Phase.GONE], require="majority"), two_services())
    assert [
        (loss.workload.name, loss.domain, loss.now, loss.wanted, loss.required)
        for loss in sorted(losses, key=lambda loss: loss.workload)
    ] == [
        ("db", "b", 0, 2, 2),
        ("web", "a", 3, 9, 5),
    ]
    assert all(loss.holds for loss in losses)


def test_a_group_says_what_must_be_left_of_its_workloads_and_the_strictest_of_several_holds() -> None:
    """What one does not say is as the policy has it, whatever another says; keys stand instead of the policy's."""
    snapshot = two_services()
    policy = policy_of(
        group("g1", "web", require=2, phases=[Phase.GONE]),
        group("g2", "web", require="majority"),
        group("g3", "db", keys=[HOSTNAME]),
        require=1,
    )
    losses = worst_of(policy, snapshot)
    assert {(loss.workload.name, loss.key, loss.phase, loss.required) for loss in losses} == {
        ("web", ZONE, Phase.SILENT, 5),
        ("web", ZONE, Phase.GONE, 5),
        ("db", HOSTNAME, Phase.SILENT, 1),
        ("db", HOSTNAME, Phase.GONE, 1),
    }


def test_without_keys_nothing_is_computed_but_for_groups_that_name_some() -> None:
    snapshot = two_services()
    assert demands_of(policy_of(keys=[]), snapshot).keys == []
    losses = worst_of(policy_of(group("g", "db", keys=[ZONE]), keys=[]), snapshot)
    assert {loss.workload.name for loss in losses} == {"db"}


def check_worst(seed: int) -> None:
    view = draw_loss(seed).before
    policy = policy_of(keys=[ZONE, HOSTNAME])
    rows = {
        (row.workload, lost.key, lost.phase): min(
            (other.guaranteed, other.possible, other.now)
            for one in find_resilience(view, [lost.key], [lost.phase], lambda _: True)
            for other in one.rows
            if other.workload == row.workload
        )
        for lost in find_resilience(view, [ZONE, HOSTNAME], Phase, lambda _: True)
        for row in lost.rows
    }
    found = find_worst(view, demands_of(policy, view.snapshot)).losses
    assert {(loss.workload, loss.key, loss.phase): (loss.guaranteed, loss.possible, loss.now) for loss in found} == rows


@pytest.mark.parametrize("seed", sampled(range(5)))
def test_the_worst_is_the_least_of_all_rows(seed: int) -> None:
    check_worst(seed)


def check_transport(seed: int) -> None:
    view = draw_loss(seed).before
    question = Question(snapshot=view.snapshot, profile=view.profile, demands=demands_of(policy_of(), view.snapshot))
    file = BytesIO()
    send_question(question, file)
    file.seek(0)
    received = receive_question(file)
    assert received == question
    assert compute(received) == compute(question)


@pytest.mark.parametrize("seed", sampled(range(20)))
def test_a_question_arrives_as_it_was_sent(seed: int) -> None:
    check_transport(seed)


def test_a_name_with_the_separator_arrives_too() -> None:
    """No API server has one; whatever has must not shift the names of others."""
    snapshot = two_services()
    pods = tuple(structs.replace(pod, name="a\0b") if number == 1 else pod for number, pod in enumerate(snapshot.pods))
    snapshot = replace(snapshot, pods=pods)
    question = Question(snapshot=snapshot, profile=View(snapshot).profile, demands=demands_of(policy_of(), snapshot))
    file = BytesIO()
    send_question(question, file)
    file.seek(0)
    assert receive_question(file).snapshot.pods == pods


def test_another_process_answers_what_this_one_would() -> None:
    snapshot = two_services()
    question = Question(snapshot=snapshot, profile=View(snapshot).profile, demands=demands_of(policy_of(), snapshot))
    assert compute_elsewhere(question, threading.Event()) == compute(question)


def test_a_process_that_is_not_needed_any_more_is_ended() -> None:
    ending = threading.Event()
    ending.set()
    snapshot = two_services()
    question = Question(snapshot=snapshot, profile=View(snapshot).profile, demands=demands_of(policy_of(), snapshot))
    answer = compute_elsewhere(question, ending)
    assert answer.worst is None
    assert answer.problem.startswith("the process that computes it ended with code")
