"""Namespaces as the API server sends them."""

import json
from typing import Any

import msgspec
import pytest

from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import KIND_NAMED
from rebalancer.decoding.lists import decode
from rebalancer.decoding.reduction import reduce_object


@pytest.mark.parametrize(
    ("fields", "terminating"), [({}, False), ({"deletionTimestamp": "2026-01-02T03:04:05Z"}, True)]
)
def test_a_namespace_that_is_being_deleted_is_known_from_the_dump_too(
    fields: dict[str, Any], terminating: bool
) -> None:
    kind = KIND_NAMED["Namespace"]
    text = json.dumps({"metadata": {"name": "shop", **fields}, "status": {"phase": "Active"}}).encode()
    for data in (text, reduce_object(kind, msgspec.Raw(text))):
        assert decode(kind, data, Interner()).terminating is terminating
