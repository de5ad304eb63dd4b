"""The approval is read from its ConfigMap, whatever somebody has put there."""

import json
from typing import cast

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.configmaps import find_approval
from rebalancer.adapters.kubernetes.reflector import Contents
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.controller.state import ApprovalRead, LoopEvent
from rebalancer.controller.switches import watch_approvals, written_from_contents
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.lists import decode
from rebalancer.model.snapshot import Fault


def approval(**fields: object) -> bytes:
    return json.dumps({"metadata": {"name": "rebalancer-approval", "namespace": "ns"}, **fields}).encode()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"data": {}}, ""),
        ({"data": {"other": "0a1b"}}, ""),
        ({"data": {"approved": "0a1b"}}, "0a1b"),
        ({"data": {"approved": " 0a1b\n"}}, "0a1b"),
        ({"binaryData": {"approved": "//4="}}, ""),
    ],
)
def test_only_its_own_key_counts(fields: dict[str, object], expected: str) -> None:
    """The line end of a file is no part of the hash."""
    assert find_approval(decode(CONFIG_MAPS, approval(**fields), Interner())) == expected


def test_each_change_is_reported() -> None:
    """What is gone, or cannot be read, approves nothing."""
    reported: list[LoopEvent] = []
    watch = watch_approvals(cast("Transport", None), "ns", reported.append)
    assert watch._changed is not None
    decoded = decode(CONFIG_MAPS, approval(data={"approved": "0a1b"}), Interner())
    unreadable = decode(CONFIG_MAPS, approval(data=5), Interner())
    assert isinstance(unreadable, Fault)
    for contents in (
        Contents(objects=(decoded,), faults=()),
        Contents(objects=(), faults=()),
        Contents(objects=(), faults=(unreadable,)),
    ):
        watch._changed(contents)
    fault = written_from_contents(Contents(objects=(), faults=(unreadable,)))
    assert fault.problem.startswith("approval.yaml cannot be read, so it approves nothing.")
    assert reported == [
        ApprovalRead(approved="0a1b"),
        ApprovalRead(approved=""),
        ApprovalRead(approved="", written=fault),
    ]


NINE = "plan: 0123456789abcdef\nevictions: 9\nuntil: 2026-01-31T12:00:00Z\n"


@pytest.mark.parametrize(
    ("fields", "approved", "problem"),
    [
        ({"data": {"approved": "0a1b"}}, "", ""),
        ({"data": {"approved": "0a1b", "approval.yaml": NINE}}, "0123456789abcdef", ""),
        ({"data": {"approval.yaml": "evictions: 9"}}, "", "`plan`"),
        ({"data": {"approval.yml": NINE}}, "", ""),
        ({"binaryData": {"approval.yaml": "//4="}}, "", "it is not text in UTF-8"),
    ],
)
def test_the_approval_of_a_whole_plan_has_a_key_of_its_own(
    fields: dict[str, object], approved: str, problem: str
) -> None:
    """What is wrong with it is logged once; the plain hash beside it stays what it is."""
    reported: list[LoopEvent] = []
    watch = watch_approvals(cast("Transport", None), "ns", reported.append)
    assert watch._changed is not None
    decoded = decode(CONFIG_MAPS, approval(**fields), Interner())
    with capture_logs() as logs:
        watch._changed(Contents(objects=(decoded,), faults=()))
        watch._changed(Contents(objects=(decoded,), faults=()))
    (first, second) = reported
    assert isinstance(first, ApprovalRead)
    assert first == second
    assert (first.written.approval.plan if first.written.approval is not None else "") == approved
    assert problem in first.written.problem
    assert bool(first.written.problem) == bool(problem)
    assert [entry["event"] for entry in logs] == (["approval has no effect"] if problem else [])
