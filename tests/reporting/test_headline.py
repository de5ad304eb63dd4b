"""The headline: what happens and what comes next, in the order of what matters most."""

from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.admission.admit import MemoryUnsaved
from rebalancer.documents.losses import LossStatus
from rebalancer.documents.overview import Figures
from rebalancer.documents.status import (
    ApprovalStatus,
    BreakerStatus,
    GuardStatus,
    LeaseStatus,
    PauseStatus,
    StatusDocument,
)
from rebalancer.documents.waits import HoldStatus
from rebalancer.model.breaker import BreakerCause
from rebalancer.reporting.headline import Sign, headline, headlines, loss_sentence
from rebalancer.reporting.text.layout import TextLayout
from rebalancer.reporting.text.status import status_text
from tests.reporting.text.test_status import NOW, STATUS

BUSY = Figures(
    workloads=42,
    violated=5,
    constraints=61,
    violated_constraints=4,
    limits=8,
    violated_limits=1,
    moving=1,
    waiting=6,
    next_at=NOW + timedelta(seconds=40),
    unrepairable=1,
    blocked=2,
)
STILL = structs.replace(BUSY, violated=0, violated_constraints=0, violated_limits=0, moving=0, waiting=0, next_at=None)
QUIET = structs.replace(STILL, unrepairable=0, blocked=0)
WITHOUT_A_NODE = structs.replace(
    STATUS.waits[0], violated=(), evictions=0, without_node=True, reason="NoCapacity", ends_with=""
)
APPROVAL = ApprovalStatus(
    hash="9cba2bd3",
    approved=False,
    since=NOW,
    expires_at=NOW + timedelta(minutes=15),
    evictions=(),
    total=4,
    left=4,
    command="rebalancer approve 9cba2bd3",
    who="approvers",
)


UNSAVED = HoldStatus(
    scope="the cluster",
    reason="MemoryNotSaved",
    message=str(MemoryUnsaved("HTTP 403")),
    since=None,
    until=None,
    ends_with="when the memory can be saved",
)


@pytest.mark.parametrize(
    ("changes", "figures", "sign", "said"),
    [
        ({}, BUSY, Sign.MOVING, "Repairing: 1 pod is moving, the next eviction is in 40s at the earliest"),
        ({}, structs.replace(BUSY, moving=2, next_at=None), Sign.MOVING, "Repairing: 2 pods are moving"),
        (
            {},
            structs.replace(BUSY, moving=0),
            Sign.WAITING,
            "6 evictions wait, the next eviction is in 40s at the earliest",
        ),
        (
            {},
            structs.replace(BUSY, may_go_sooner=True),
            Sign.MOVING,
            "Repairing: 1 pod is moving, a wait ends in 40s",
        ),
        ({}, structs.replace(BUSY, moving=0, waiting=1, next_at=NOW), Sign.WAITING, "1 eviction waits"),
        (
            {"mode": "Observe"},
            structs.replace(BUSY, moving=0),
            Sign.VIOLATED,
            "5 workloads violated: 6 evictions would repair what can be, mode Observe makes none",
        ),
        ({}, structs.replace(STILL, violated=1), Sign.UNREPAIRABLE, "1 workload violated and cannot be repaired now"),
        ({}, structs.replace(STILL, violated=2), Sign.VIOLATED, "2 workloads violated, nothing is planned"),
        ({"waits": ()}, QUIET, Sign.GOOD, "Nothing is violated, nothing moves"),
        (
            {"waits": (WITHOUT_A_NODE,)},
            QUIET,
            Sign.NOTE,
            "No rule is violated, but pods wait for a node (NoCapacity)",
        ),
        ({}, structs.replace(QUIET, workloads=0), Sign.NOTE, "No workload has a spread constraint or a limit yet"),
        ({}, None, Sign.NOTE, "The first cycle has not ended yet"),
        ({"approval": APPROVAL}, BUSY, Sign.WAITING, "A plan of 4 evictions waits for approval until 09:15:00 UTC"),
        (
            {"approval": structs.replace(APPROVAL, approved=True)},
            BUSY,
            Sign.MOVING,
            "Repairing: 1 pod is moving, the next eviction is in 40s at the earliest",
        ),
        (
            {"breaker": BreakerStatus(open=True, causes=(BreakerCause.UNREADY_ZONE,))},
            BUSY,
            Sign.NONE,
            "No eviction now: the breaker is open (unready_zone)",
        ),
        ({"stale": "Pod: no watch event for 205s"}, BUSY, Sign.NONE, "No eviction now: Pod: no watch event for 205s"),
        (
            {"guards": (GuardStatus(name="errors", good=False, message="1 series"),)},
            BUSY,
            Sign.NONE,
            "No eviction now: not every guard is good (errors)",
        ),
        (
            {"holds": (UNSAVED,)},
            BUSY,
            Sign.NONE,
            "No eviction now: nothing is evicted while the controller cannot save its memory: HTTP 403",
        ),
        (
            {"missing_rights": ("a", "b", "c", "d", "e", "f")},
            structs.replace(BUSY, moving=0),
            Sign.NONE,
            (
                "No right to evict in a, b, c, d, e and 1 more: apply "
                "deploy/components/evict-rights/cluster-role.yaml, or deploy/namespace there"
            ),
        ),
        (
            {"mode": "Observe", "stale": "Pod: no watch event for 205s", "waits": ()},
            QUIET,
            Sign.GOOD,
            "Nothing is violated, nothing moves",
        ),
        (
            {"paused": PauseStatus(until=NOW + timedelta(hours=3), reason="an incident", by="ada")},
            BUSY,
            Sign.PAUSE,
            "Paused by ada until 12:00:00 UTC",
        ),
        (
            {"paused": PauseStatus(until=NOW + timedelta(days=6), reason="an incident", by="ada")},
            BUSY,
            Sign.PAUSE,
            "Paused by ada until 11 Jan 09:00:00 UTC",
        ),
        ({"paused": PauseStatus(until=None, reason="", by="")}, BUSY, Sign.PAUSE, "Paused until somebody resumes"),
        (
            {"paused": PauseStatus(until=NOW - timedelta(seconds=7), reason="an incident", by="ada")},
            BUSY,
            Sign.PAUSE,
            "The pause by ada was over at 08:59:53 UTC: it ends with the next cycle",
        ),
        ({"lease": LeaseStatus(error="no answer")}, BUSY, Sign.NOTE, "Whether a controller runs is not known"),
        ({"lease": LeaseStatus(free_since=NOW)}, BUSY, Sign.NONE, "Nothing is watched, nothing is repaired"),
        (
            {"lease": LeaseStatus(holder=STATUS.leader)},
            BUSY,
            Sign.MOVING,
            "Repairing: 1 pod is moving, the next eviction is in 40s at the earliest",
        ),
    ],
)
def test_it_says_what_matters_most(changes: dict[str, object], figures: Figures | None, sign: Sign, said: str) -> None:
    status: StatusDocument = structs.replace(STATUS, **changes)
    assert headline(status, figures, NOW) == (sign, said)
    text = status_text(structs.replace(status, figures=figures), NOW)
    assert (said in text) is (figures is not None)


def test_the_status_has_the_four_figures() -> None:
    """Each with its sign and its word; a zero has no sign: nothing is wrong there."""
    status = structs.replace(STATUS, figures=BUSY)
    line = "! 5 of 42 workloads violated   > 1 moving   ~ 6 to be evicted, next in 40s   x 1 cannot be repaired now"
    assert line in status_text(status, NOW)
    within = structs.replace(status, figures=structs.replace(BUSY, unsatisfiable_limits=1))
    assert "5 of 42 workloads violated (1 within bounds, but without a placement that satisfies it)" in " ".join(
        status_text(within, NOW).split()
    )
    coloured = status_text(structs.replace(STATUS, figures=QUIET, waits=()), NOW, TextLayout(color=True))
    assert "!" not in coloured
    assert "\n0\xa0of\xa042\xa0workloads\xa0violated" in coloured.replace(" ", "\xa0")
    assert "\x1b[32mok\x1b[0m Nothing is violated" in coloured


@pytest.mark.parametrize(
    ("limits", "unsatisfiable", "said"),
    [
        (1, 1, "no placement satisfies 1 limit before it is back"),
        (3, 1, "2 limits violated; no placement satisfies 1 limit before it is back"),
        (1, 0, "1 limit violated; no placement satisfies it before it is back"),
    ],
)
def test_a_limit_within_its_bound_is_not_said_to_be_violated_by_a_lost_zone(
    limits: int, unsatisfiable: int, said: str
) -> None:
    """As long as its pods of the zone are not placed elsewhere, no domain holds more than it may."""
    loss = LossStatus(
        topology_key="topology.kubernetes.io/zone",
        value="c",
        whole=True,
        at=NOW,
        lost=2,
        had=2,
        pods=3,
        nodes=(),
        limits=limits,
        unsatisfiable=unsatisfiable,
        hopeless=limits == 1,
    )
    assert loss_sentence(loss, "Evict", NOW).endswith(f"2 nodes, 3 pods; {said}")


def test_a_lost_zone_leaves_no_green() -> None:
    """Nothing is violated, and yet not all is well."""
    loss = LossStatus(
        topology_key="topology.kubernetes.io/zone", value="c", whole=True, at=NOW, lost=2, had=2, pods=3, nodes=()
    )
    said = headlines(structs.replace(STATUS, losses=(loss,), waits=()), QUIET, NOW)
    assert [one.sign for one in said] == [Sign.VIOLATED, Sign.NOTE]
    assert [one.sign for one in headlines(structs.replace(STATUS, waits=()), QUIET, NOW)] == [Sign.GOOD]
