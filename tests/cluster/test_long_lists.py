"""A long list from a real API server, over TLS: every object once, page by page."""

from rebalancer.adapters.kubernetes.pages import read_pages
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.decoding.kinds import PODS
from tests.control_plane.manifests import namespace, pod
from tests.control_plane.plane import ControlPlane

COUNT = 1_700
"""Pods that nobody schedules, so that nothing changes: three pages of 500, and a part of one."""


def test_a_list_of_several_pages_is_complete(cluster: ControlPlane) -> None:
    cluster.api.create(namespace("long"))
    cluster.api.create_all(pod(f"pod-{number}", namespace="long", schedulerName="nobody") for number in range(COUNT))
    transport = connect(kubeconfig=str(cluster.kubeconfig()))
    pages = [page.objects for page in read_pages(transport, PODS, PODS.path)]
    assert [len(page) for page in pages][:3] == [500, 500, 500]
    names = [item.name for page in pages for item in page if item.namespace == "long"]
    assert sorted(names) == sorted(f"pod-{number}" for number in range(COUNT))
