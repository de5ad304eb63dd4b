"""Nothing is requested or proposed where this account may not evict, as the API server says."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.admission.admit import Admission
from rebalancer.admission.pause import Pause
from rebalancer.admission.rights import WAY_OUT, RightMissing, Rights
from rebalancer.model.moves import NO_MEMORY, FailedPrediction, Memory, SentRequest
from rebalancer.model.reasons import Reason
from rebalancer.model.words import EVICT_RIGHT, EVICT_RIGHT_THERE
from rebalancer.policy import Amount, Mode
from rebalancer.tracking.backoff import record_refusal
from tests.admission.test_admit import admitted, assess_and_plan, reasons, rules
from tests.admission.test_approval import NOW, cycle, proposal_of

ROOT = Path(__file__).parents[2]
ONE = Rights(everywhere=False, granted=frozenset({"one"}), missing={"two": NOW})


def spaces(admission: Admission) -> set[str]:
    return {eviction.pod.namespace for eviction in admission.fates.going}


def refusals(admission: Admission) -> set[str]:
    return {str(waiting.refusal) for waiting in admission.fates.kept}


def test_what_is_not_allowed_waits_in_its_namespace() -> None:
    """The other goes; what is not known yet waits for the answer, and says so."""
    admission = admitted(rules(), rights=ONE)
    assert spaces(admission) == {"one"}
    assert {waiting.refusal for waiting in admission.fates.kept} == {RightMissing("two", True)}
    assert reasons(admission) == {Reason.FORBIDDEN}
    (text,) = refusals(admission)
    assert text.startswith(
        "the controller's account has no right to evict in two: apply deploy/components/evict-rights/"
    )
    unasked = admitted(rules(), rights=Rights(everywhere=False))
    assert refusals(unasked) == {
        f"the API server is being asked whether the controller's account may evict in {name}" for name in ("one", "two")
    }
    assert spaces(admitted(rules(), rights=Rights())) == {"one", "two"}


def test_the_way_out_grants_the_right_and_replaces_nothing_else() -> None:
    """The policy of who applies it stays: the manifest that it names has no ConfigMap."""
    manifest = ROOT / EVICT_RIGHT
    assert EVICT_RIGHT in WAY_OUT
    assert EVICT_RIGHT_THERE in WAY_OUT
    folder = ROOT / EVICT_RIGHT_THERE.rpartition(" ")[2]
    assert [yaml.safe_load(path.read_text())["kind"] for path in folder.glob("role*.yaml")] == ["RoleBinding"]
    assert [one["kind"] for one in yaml.safe_load_all(manifest.read_text())] == ["ClusterRole", "ClusterRoleBinding"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"pause": Pause()}, Reason.PAUSED), ({"stale": "old"}, Reason.STALE_DATA)],
)
def test_what_keeps_everything_back_is_said_first(fields: dict[str, Any], reason: Reason) -> None:
    """Nobody is sent to the administrator for a right that would change nothing now."""
    assert reasons(admitted(rules(), rights=ONE, **fields)) == {reason}


def test_only_what_can_be_carried_out_is_proposed() -> None:
    """A proposal that nobody has approved ends when the right for a part of it is missing; an approved one stays."""
    admission, memory = cycle(rights=ONE)
    proposed = {one.eviction.pod.namespace for one in admission.fates.kept if one.reason is Reason.AWAITING_APPROVAL}
    assert proposed == {"one"}
    _, whole = cycle()
    _, memory = cycle(whole, rights=ONE, later=timedelta(minutes=1))
    assert proposal_of(memory).hash != proposal_of(whole).hash
    assert set(proposal_of(memory).uids) < set(proposal_of(whole).uids)
    _, under_way = cycle(whole, approved=proposal_of(whole).hash)
    admission, memory = cycle(under_way, rights=ONE)
    assert proposal_of(memory).hash == proposal_of(whole).hash
    assert spaces(admission) == {"one"}


def test_in_observe_no_right_is_needed() -> None:
    """Whatever was asked before."""
    assert reasons(admitted(rules(Mode.OBSERVE), rights=replace(ONE, granted=frozenset()))) == {Reason.OBSERVE_ONLY}
    assert NO_MEMORY.proposal is None


@given(
    failed=st.integers(0, 3),
    ages=st.tuples(*[st.integers(0, 400)] * 3),
    lasting=st.sampled_from([0, 0, 30, 3600]),
    allowed=st.sampled_from([1, 100]),
    answered=st.booleans(),
    mode=st.sampled_from([Mode.EVICT, Mode.APPROVE]),
)
def test_a_missing_right_is_named_whatever_else_ends_later(
    failed: int, ages: tuple[int, int, int], lasting: int, allowed: int, answered: bool, mode: Mode
) -> None:
    """Whether the API server has said so when it was asked, or by its answer to the last request.

    No back-off, rate or span that has to pass is what the on-call engineer reads instead: its end would not help.
    """
    snapshot, _, made = assess_and_plan(rules())
    now = snapshot.taken_at
    failure, request, sent = (now - timedelta(seconds=age) for age in ages)
    groups = [one.name for one in made.components]
    memory = Memory(
        failed_predictions=tuple(FailedPrediction(group, failed, failure) for group in groups if failed),
        sent=(SentRequest(sent, "", ""),),
    )
    fields: dict[str, Any] = {"rights": Rights(everywhere=False, missing={"one": now, "two": now})}
    if answered:
        for group in groups:
            memory = record_refusal(memory, group, request, timedelta(minutes=7))
        fields = {"forbidden": dict.fromkeys(("one", "two"), "no right")}
    admission = admitted(rules(mode, lasting=lasting, per_minute=Amount(value=allowed)), memory, **fields)
    assert not admission.fates.going
    for waiting in admission.fates.waiting:
        assert waiting.reason is Reason.FORBIDDEN
        assert waiting.refusal.end.until(now) is None
        assert "may evict" in waiting.refusal.end.event
