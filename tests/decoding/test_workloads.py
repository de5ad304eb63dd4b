"""Owners as the API server sends them."""

import json
from typing import Any

import msgspec
import pytest

from rebalancer.decoding import wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.workloads import decode_stateful_set


@pytest.mark.parametrize(
    ("spec", "wanted"), [({}, range(3)), ({"ordinals": {}}, range(3)), ({"ordinals": {"start": 5}}, range(5, 8))]
)
def test_a_stateful_set_says_which_ordinals_it_wants(spec: dict[str, Any], wanted: range) -> None:
    metadata = {"name": "db", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}
    text = json.dumps({"metadata": metadata, "spec": {"replicas": 3, **spec}})
    made = decode_stateful_set(msgspec.json.decode(text, type=wire.Owner), Interner())
    assert made.ordinals == wanted
