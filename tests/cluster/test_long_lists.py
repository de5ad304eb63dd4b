"""A long list from a real API server is received by another process, over TLS: the same objects, in the same order."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from rebalancer.adapters.kubernetes import pages as paging
from rebalancer.adapters.kubernetes import receiver
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.adapters.processes import has_second_processor
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import PODS
from rebalancer.decoding.lists import decode_page
from rebalancer.decoding.page_text import divide_page, without_managed_fields
from tests.control_plane.manifests import namespace, pod
from tests.control_plane.plane import ControlPlane

COUNT = 1_700
"""Pods that nobody schedules, so that nothing changes: three pages of 500, and a part of one."""


@pytest.mark.skipif(not has_second_processor(), reason="needs Linux and two processors")
def test_a_list_is_the_same_whoever_receives_it(cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written, and how many objects follow, is the server's own; a list counts as long from 1,000 on here."""
    cluster.api.create(namespace("long"))
    cluster.api.create_all(pod(f"pod-{number}", namespace="long", schedulerName="nobody") for number in range(COUNT))
    received: list[int] = []

    def receiving(
        connect: Callable[[], receiver.Request],
        find_token: Callable[[bytes], str],
        reduce: receiver.Reduce,
        token: str,
    ) -> AbstractContextManager[Iterator[memoryview]]:
        received.append(len(token))
        return receiver.receiving(connect, find_token, reduce, token)

    monkeypatch.setattr(paging, "receiving", receiving)
    monkeypatch.setattr(paging, "_LONG", 1_000)
    transport = connect(kubeconfig=str(cluster.kubeconfig()))
    pages = {
        apart: [page.objects for page in paging.read_pages(transport, PODS, PODS.path, apart=apart)]
        for apart in (False, True)
    }
    assert len(received) == 1
    assert pages[True] == pages[False]
    assert [len(page) for page in pages[True]][:3] == [500, 500, 500]
    assert {item.name for page in pages[True] for item in page} >= {f"pod-{number}" for number in range(COUNT)}
    # The server writes pages in the form that lets them be divided, and half of their text be left out.
    data = transport.request("GET", PODS.path, query={"limit": "500"})
    reduced = b"".join(without_managed_fields(data))
    assert [len(items) for items in map(json.loads, divide_page(data)[1])][:-1]
    assert b'"fieldsV1"' in data
    assert b'"fieldsV1"' not in reduced
    assert decode_page(PODS, reduced, Interner()) == decode_page(PODS, data, Interner())
