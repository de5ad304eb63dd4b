"""Nothing is requested or proposed where this account may not evict, as the API server says."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.admission.admit import Admission
from rebalancer.admission.pause import Pause
from rebalancer.admission.rights import WAY_OUT, RightMissing, Rights
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import Reason
from rebalancer.model.words import EVICT_RIGHT
from rebalancer.policy import Mode
from tests.admission.test_admit import admitted, reasons, rules
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
