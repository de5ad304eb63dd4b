"""The approval is read from its ConfigMap, whatever somebody has put there."""

import json
from typing import cast

import pytest

from rebalancer.adapters.kubernetes.configmaps import find_approval
from rebalancer.adapters.kubernetes.reflector import Contents
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.controller.state import ApprovalRead, LoopEvent
from rebalancer.controller.switches import watch_approvals
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
    assert reported == [ApprovalRead(approved="0a1b"), ApprovalRead(approved=""), ApprovalRead(approved="")]
