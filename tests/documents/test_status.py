"""The Status document: what an operator reads first."""

from datetime import timedelta

import msgspec

from rebalancer.cli.acting import Acting
from rebalancer.controller.status import status_document
from rebalancer.documents.plan import plan_totals
from rebalancer.documents.status import BreakerStatus, breaker_status, refused_evictions
from rebalancer.engine import evaluate
from rebalancer.model.breaker import CLOSED, BreakerCause, BreakerState, OpenCause
from rebalancer.model.moves import Memory, RefusedRequest
from rebalancer.model.reasons import Reason
from tests.admission.test_admit import rules, skewed
from tests.build import a_state
from tests.scheduling.build import NOW


def test_the_breaker_in_the_status() -> None:
    """Whether it is open, and for what; without a state it is closed."""
    causes = tuple(
        OpenCause(cause=cause, part=5, total=9, bound=20, since=NOW, last=NOW)
        for cause in (BreakerCause.UNREADY_NODES, BreakerCause.FAILED_MOVES)
    )
    expected = {"open": True, "causes": ("unready_nodes", "failed_moves"), "namespaces": ()}
    assert msgspec.to_builtins(breaker_status(BreakerState(causes), ())) == expected
    assert breaker_status(CLOSED, ()) == BreakerStatus(open=False, causes=())


def refused(group: str, seconds: int, refuser: str = "admission webhook guard") -> RefusedRequest:
    return RefusedRequest(group, 1, NOW, timedelta(seconds=seconds), refuser, "not now", "shop/web-0")


def test_the_evictions_that_admission_control_refused() -> None:
    """Those that are not to be tried again yet, at most a hundred, in the order of their groups; no other refusal."""
    requests = (refused("b", 60), refused("a", 61), refused("over", 0), refused("budget", 60, ""))
    entries = refused_evictions(Memory(refused=requests), NOW)
    assert [(entry.group, entry.next_try) for entry in entries] == [
        ("a", NOW + timedelta(seconds=61)),
        ("b", NOW + timedelta(seconds=60)),
    ]
    assert entries[0].refusal.reason is Reason.REFUSED_BY_ADMISSION
    many = Memory(refused=tuple(refused(f"{number:03}", 60) for number in range(101)))
    assert [entry.group for entry in refused_evictions(many, NOW)] == [f"{number:03}" for number in range(100)]


def test_a_plan_does_not_promise_what_admission_control_refused() -> None:
    """The evictions of that group wait with the refusal; those of others stay; the number of all is the same."""
    policy = rules()
    plan = evaluate(skewed(), policy).plan
    name = plan.components[0].name
    evaluation = evaluate(skewed(), policy, memory=Memory(refused=(refused(name, 60),)))
    status = status_document(a_state(policy, NOW), "one", "policy.yaml")
    held = Acting(str, status).admit(evaluation)
    assert {(waiting.reason, waiting.eviction.group) for waiting in held.fates.kept} == {
        (Reason.REFUSED_BY_ADMISSION, name)
    }
    assert name not in {eviction.group for eviction in held.fates.going}
    before, after = plan_totals(plan), plan_totals(held)
    assert (after.now, after.waiting) == (
        before.now - len(held.fates.kept),
        before.waiting + len(held.fates.kept),
    )
    assert after.evictions == before.evictions
    assert Acting(str).admit(evaluation) is evaluation.plan
