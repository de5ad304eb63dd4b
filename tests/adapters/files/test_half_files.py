"""A file that is only a part of a cluster, or of more than one state, is refused, or reported before the answer.

Nothing is said of a whole file: whatever is certain or possible has its state beside it that is read without a word.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.adapters.files import SnapshotFile, UnreadableSnapshot, read_snapshots, reduce_snapshots
from rebalancer.decoding.reduction import reduced_list
from rebalancer.model.cluster import NEWEST
from tests.drawing import examples

Item = dict[str, Any]
MORNING, NOON = "2026-03-02T08:00:00Z", "2026-03-02T12:00:00Z"


def node(name: str, uid: str = "", version: int = 5, at: str = NOON, **fields: Any) -> Item:
    status = {"allocatable": {"cpu": "4", "pods": "110"}, "conditions": [beat(at)]}
    metadata = {
        "name": name,
        "uid": uid or f"node-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": MORNING,
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status, **fields}


def beat(at: str) -> Item:
    return {"type": "Ready", "status": "True", "lastHeartbeatTime": at, "lastTransitionTime": MORNING}


def pod(name: str, on: str = "n1", namespace: str = "pay", uid: str = "", version: int = 5, **status: Any) -> Item:
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"{namespace}-{name}"}
    metadata |= {"resourceVersion": str(version), "creationTimestamp": MORNING}
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "ledger", "uid": "ledger", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": [reference]},
        "spec": {"nodeName": on, "containers": [{"name": "main"}]},
        "status": {"phase": "Running", **status},
    }


def owner(namespace: str = "pay", kind: str = "StatefulSet", uid: str = "ledger", **status: Any) -> Item:
    metadata = {"name": "ledger", "namespace": namespace, "uid": uid, "creationTimestamp": MORNING}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": {"spec": {"containers": []}}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}


def namespaced(name: str, uid: str = "") -> Item:
    metadata = {"name": name, "uid": uid or name, "creationTimestamp": MORNING}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def service(namespace: str = "default", uid: str = "s") -> Item:
    metadata = {"name": "kubernetes", "namespace": namespace, "uid": uid, "creationTimestamp": MORNING}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}}


def whole() -> list[Item]:
    """Return a small cluster of two namespaces."""
    pods = [pod("ledger-0"), pod("ledger-1", "n2"), pod("dns", namespace="kube-system")]
    return [node("n1"), node("n2"), namespaced("kube-system"), service(), owner(replicas=2), *pods]


def a_list(items: Sequence[Item], kind: str = "List", **metadata: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": metadata, "items": items})


def warned(*texts: str) -> list[str]:
    """Return what is reported about files, without what a missing kind or an object that comes twice is."""
    files = [SnapshotFile(f"{number}.json", text.encode()) for number, text in enumerate(texts)]
    _, warnings = read_snapshots(files, version=NEWEST, at=None)
    assert [warning for warning in reduce_snapshots(files).warnings if warning not in warnings] == []
    return [one for one in warnings if "kubectl command" not in one and "more than once" not in one]


def refused(*texts: str) -> str:
    """Return why files are refused, by the commands that read them as by the one that reduces them."""
    files = [SnapshotFile(f"{number}.json", text.encode()) for number, text in enumerate(texts)]
    with pytest.raises(UnreadableSnapshot) as caught:
        read_snapshots(files, version=NEWEST, at=None)
    with pytest.raises(UnreadableSnapshot) as again:
        reduce_snapshots(files)
    assert str(caught.value) == str(again.value)
    return str(caught.value)


def without(item: Item, *path: str) -> Item:
    """Return a copy of an object without a field."""
    made: Item = json.loads(json.dumps(item))
    inner = made
    for name in path[:-1]:
        inner = inner[name]
    inner.pop(path[-1], None)
    return made


def test_a_whole_cluster_is_read_without_a_word() -> None:
    assert warned(a_list(whole())) == []
    assert warned(a_list(whole()), a_list(whole())) == []


def test_what_rebalancer_has_reduced_is_read_without_a_word() -> None:
    """It may be of one namespace: Rebalancer asks for all of them."""
    waiting = pod("ledger-2", "", phase="Pending")
    items = [node("n1"), node("n2"), owner(), pod("ledger-0"), waiting]
    reduced = reduce_snapshots([SnapshotFile("a.json", a_list(items).encode())])
    text = b"".join(reduced_list(reduced.items, reduced.kinds, reduced.taken_at)).decode()
    assert warned(text) == []


class TestPages:
    """`metadata.continue` says that a list goes on."""

    @pytest.mark.parametrize("kind", ["List", "PodList"])
    def test_a_page_alone_is_refused_with_the_number_that_is_missing(self, kind: str) -> None:
        metadata: dict[str, Any] = {"continue": "t", "remainingItemCount": 41}
        message = refused(a_list([pod("ledger-0")], kind, **metadata))
        assert message.startswith(
            "0.json: only 1 object of a longer list (metadata.remainingItemCount: 41 more follow)"
        )
        assert "every page with --snapshot" in message

    def test_so_is_one_of_a_server_that_does_not_count_and_one_in_a_list_of_lists(self) -> None:
        metadata: dict[str, Any] = {"continue": "t"}
        page = json.loads(a_list([pod("ledger-0")], "PodList", **metadata))
        for text in (json.dumps(page), a_list([page, *whole()])):
            assert "metadata.continue is set" in refused(text)

    def test_the_last_page_and_the_first_without_the_middle_are_refused(self) -> None:
        metadata: dict[str, Any] = {"resourceVersion": "9", "continue": "t", "remainingItemCount": 2}
        first = a_list([pod("a")], **metadata)
        assert "1 more follow" in refused(first, a_list([pod("c")], resourceVersion="9"))

    @given(st.integers(1, 12), st.integers(1, 5), st.booleans(), st.randoms(use_true_random=False))
    @examples(40)
    def test_all_pages_in_any_order_are_whole_and_without_any_one_they_are_refused(
        self, number: int, size: int, counts: bool, random: Any
    ) -> None:
        every = whole() + [pod(f"more-{index}") for index in range(number)]
        pages = []
        for start in range(0, len(every), size):
            rest = len(every) - start - size
            token = {"continue": f"from-{start}"} if rest > 0 else {}
            counted = {"remainingItemCount": rest} if counts and rest > 0 else {}
            metadata: dict[str, Any] = {"resourceVersion": "9", **token, **counted}
            pages.append(a_list(every[start : start + size], **metadata))
        random.shuffle(pages)
        assert warned(*pages) == []
        gap = next(index for index, page in enumerate(pages) if "from-" not in page)
        if not counts:
            refused(*pages[:gap], *pages[gap + 1 :])
        else:
            for left in range(len(pages)):
                if len(pages) > 1 and not (left != gap and _is_first(pages[left], len(every))):
                    refused(*pages[:left], *pages[left + 1 :])

    def test_a_whole_list_of_the_server_has_no_token(self) -> None:
        assert warned(a_list(whole(), resourceVersion="9")) == []
        assert warned(a_list(whole(), resourceVersion="9", remainingItemCount=0)) == []


def _is_first(page: str, number: int) -> bool:
    """Return whether a page's own count covers all that follow: only the first one knows about the first objects."""
    read = json.loads(page)
    return bool(len(read["items"]) + read["metadata"].get("remainingItemCount", 0) == number)


class TestStripped:
    """The API server always sets a pod's phase, a running pod's node, a node's allocatable, an owner's UID."""

    @pytest.mark.parametrize(
        ("strip", "field"),
        [
            (
                lambda item: without(without(item, "status"), "spec", "nodeName") if item["kind"] == "Pod" else item,
                "status.phase and spec.nodeName",
            ),
            (lambda item: without(item, "spec", "nodeName") if item["kind"] == "Pod" else item, "spec.nodeName"),
            (lambda item: without({"status": {}, **item}, "status", "allocatable"), "status.allocatable"),
            (lambda item: without(item, "metadata", "uid"), "metadata.uid"),
        ],
    )
    def test_what_nobody_has_any_more_is_refused_and_named(self, strip: Callable[[Item], Item], field: str) -> None:
        message = refused(a_list([strip(item) for item in whole()]))
        assert f"no {field} (" in message
        assert message.startswith("0.json: ")
        assert "give what kubectl get -o json prints, unchanged" in message

    def test_what_some_lack_is_reported(self) -> None:
        """A manifest beside the cluster's objects, say."""
        manifest = without(without(pod("new"), "status"), "spec", "nodeName")
        (warning,) = warned(a_list([*whole(), manifest]))
        assert "1 of 4 pods has no status.phase and spec.nodeName (pay/new)" in warning
        (warning,) = warned(a_list([*whole(), without(node("n9"), "status")]))
        assert "1 of 3 nodes has no status.allocatable (n9)" in warning

    def test_pods_that_have_a_node_but_no_status_are_reported(self) -> None:
        (warning,) = warned(a_list([without(item, "status") if item["kind"] == "Pod" else item for item in whole()]))
        assert "3 of 3 pods have no status.phase" in warning

    def test_pods_that_wait_have_no_node_and_nothing_is_said(self) -> None:
        waiting = [pod(f"w-{number}", "", phase="Pending") for number in range(3)]
        assert warned(a_list([*whole()[:5], *waiting, pod("dns", "", "kube-system", phase="Pending")])) == []

    def test_owners_without_a_uid_matter_only_where_pods_name_one(self) -> None:
        other = {**owner("web", "ReplicaSet", uid=""), "kind": "ReplicaSet"}
        assert warned(a_list([*whole(), other])) == []

    def test_a_foreign_node_has_a_status_of_its_own(self) -> None:
        foreign = {
            "apiVersion": "longhorn.io/v1beta2",
            "kind": "Node",
            "metadata": {"name": "n1", "namespace": "store"},
        }
        assert warned(a_list([*whole(), foreign])) == []

    def test_a_manifest_beside_the_object_of_its_name_does_not_count(self) -> None:
        manifest = without(without(owner(), "status"), "metadata", "uid")
        for items in ([*whole(), manifest], [manifest, *whole()]):
            files = [SnapshotFile("a.json", a_list(items).encode())]
            snapshot, warnings = read_snapshots(files, version=NEWEST, at=None)
            assert [workload.uid for workload in snapshot.workloads] == ["ledger"]
            assert any("1 object comes more than once" in warning for warning in warnings)


class TestOneNamespace:
    """What the nodes have free is known from the pods of all namespaces."""

    def test_objects_of_one_namespace_beside_nodes_are_reported(self) -> None:
        (warning,) = warned(a_list([node("n1"), node("n2"), namespaced("kube-system"), owner(), pod("ledger-0")]))
        assert warning.startswith("only namespace pay has objects here")
        assert "kubectl get without -A" in warning
        assert "2 nodes" in warning

    def test_one_object_of_another_namespace_is_enough(self) -> None:
        assert warned(a_list([node("n1"), node("n2"), owner(), pod("ledger-0"), service()])) == []

    def test_without_a_choice_of_nodes_nothing_depends_on_it(self) -> None:
        assert warned(a_list([owner(), pod("ledger-0")])) == []
        assert warned(a_list([node("n1"), owner(), pod("ledger-0")])) == []

    @pytest.mark.parametrize(
        ("kind", "count"),
        [("StatefulSet", "replicas"), ("DaemonSet", "currentNumberScheduled"), ("Job", "active")],
    )
    def test_workloads_of_others_that_count_pods_are_refused_without_them(self, kind: str, count: str) -> None:
        other = owner("mail", kind, uid="other", **{count: 3})
        message = refused(a_list([*whole()[:4], owner(), pod("ledger-0"), other]))
        assert f"no pod of 1 namespace (mail) is here, although the status of {kind} mail/ledger counts 3" in message
        assert "kubectl get -A" in message

    def test_of_many_namespaces_one_may_be_between_two_requests(self) -> None:
        (warning,) = warned(a_list([*whole(), owner("mail", uid="other", replicas=1)]))
        assert "no pod of 1 namespace (mail) is here" in warning

    def test_workloads_that_are_scaled_to_nothing_have_no_pods(self) -> None:
        assert warned(a_list([*whole(), owner("mail", uid="other", replicas=0), owner("news", uid="third")])) == []


class TestTwoClusters:
    """Of one name a cluster has one object at one time."""

    def test_two_kube_systems_are_two_clusters(self) -> None:
        message = refused(a_list(whole()), a_list([namespaced("kube-system", "other")]))
        assert message == (
            "Namespace kube-system comes in 0.json and in 1.json, with metadata.uid kube-system and other: these are "
            "two clusters; give the files of one, written together"
        )
        assert "two clusters;" in refused("\n".join(map(json.dumps, [*whole(), namespaced("kube-system", "other")])))

    def test_so_may_be_two_nodes_and_two_pods_of_one_name(self) -> None:
        message = refused(a_list([*whole(), node("n2", uid="again")]))
        assert (
            "Node n2 comes twice in 0.json, with metadata.uid node-n2 and again: these are two clusters, or" in message
        )
        assert "Pod pay/ledger-0 comes in" in refused(a_list(whole()), a_list([pod("ledger-0", uid="new")]))

    def test_pods_of_which_no_node_is_here_are_refused(self) -> None:
        message = refused(a_list([*whole()[2:], node("x1"), node("x2")]))
        assert message.startswith("3 of 3 pods run on nodes that are not here (n1, n2)")

    def test_some_of_them_are_reported_and_those_that_have_finished_are_not(self) -> None:
        (warning,) = warned(a_list([*whole(), pod("late", "n9")]))
        assert warning.startswith("1 of 4 pods runs on nodes that are not here (n9)")
        assert warned(a_list([*whole(), pod("done", "n9", phase="Succeeded")])) == []

    def test_one_name_in_two_namespaces_or_kinds_is_two_objects(self) -> None:
        items = [*whole(), pod("ledger-0", namespace="mail"), service("mail", "s2"), owner("pay", "Deployment", "d")]
        assert warned(a_list(items)) == []


class TestTwoTimes:
    """Dumps that were written hours apart are not one state."""

    def later(self, *pods: Item) -> str:
        return a_list([node("n1", version=90), node("n2"), *pods])

    def earlier(self, at: str = MORNING) -> str:
        old = [
            node("n1", version=2, at=at),
            pod("ledger-0"),
            pod("ledger-1", "n2"),
            pod("dns", namespace="kube-system"),
        ]
        return a_list(old)

    def test_pods_that_the_newer_dump_no_longer_has_are_refused(self) -> None:
        newer = self.later(pod("ledger-0"), pod("dns", namespace="kube-system"))
        for texts in ((self.earlier(), newer), (newer, self.earlier())):
            message = refused(*texts)
            assert "of 2026-03-02 08:00 and 2026-03-02 12:00 (resourceVersion 2 and 90 of Node n1)" in message
            assert "no longer has 1 pod of the older one (pay/ledger-1); give the newer one alone" in message

    def test_two_times_without_one_are_reported(self) -> None:
        """The newer one may be of nodes only, or of another namespace."""
        for pods in ((), (pod("x", namespace="mail"),)):
            (warning,) = warned(self.earlier(), self.later(*pods))
            assert warning.startswith("two dumps of one cluster, of 2026-03-02 08:00 and 2026-03-02 12:00")

    def test_one_command_after_the_other_is_one_time(self) -> None:
        newer = self.later(pod("ledger-0"), pod("dns", namespace="kube-system"))
        assert warned(self.earlier("2026-03-02T11:55:00Z"), newer) == []

    def test_times_are_compared_only_of_what_has_changed(self) -> None:
        """A file of old objects is no old file."""
        old = a_list([service(), pod("dns", namespace="kube-system"), pod("old")])
        assert warned(old, a_list([node("n1"), pod("old")])) == []

    def test_without_a_time_nothing_is_known(self) -> None:
        bare = [without(without(item, "metadata", "creationTimestamp"), "status", "conditions") for item in whole()[:2]]
        assert warned(a_list(bare), self.later(*whole()[5:])) == []


class TestWatches:
    """A watch shows one object at several times, and that is no doubt."""

    def event(self, kind: str, item: Item) -> str:
        return json.dumps({"type": kind, "object": item})

    def lines(self) -> list[str]:
        return [self.event("ADDED", item) for item in whole()]

    def test_changes_and_successors_of_one_name_are_its_nature(self) -> None:
        old = self.event("MODIFIED", node("n1", version=2, at=MORNING))
        lines = [*self.lines(), old, self.event("MODIFIED", node("n1", version=90))]
        again = pod("ledger-0", uid="second", version=91)
        for ended in ([self.event("DELETED", pod("ledger-0", version=89))], []):
            text = "\n".join([*lines, *ended, self.event("ADDED", again)])
            assert warned(text) == []
            snapshot, _ = read_snapshots([SnapshotFile("w.json", text.encode())], version=NEWEST, at=None)
            assert sorted(one.uid for one in snapshot.pods) == ["kube-system-dns", "pay-ledger-1", "second"]

    def test_one_that_begins_with_a_change_is_reported(self) -> None:
        for kind in ("MODIFIED", "DELETED"):
            (warning,) = warned("\n".join([*self.lines(), self.event(kind, pod("ledger-7"))]))
            assert "0.json: the watch shows a change of Pod pay/ledger-7" in warning

    def test_one_that_goes_on_from_a_list_is_whole(self) -> None:
        assert warned(a_list(whole()), self.event("MODIFIED", pod("ledger-0", version=90))) == []
