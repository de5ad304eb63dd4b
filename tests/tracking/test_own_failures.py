"""Whose failure an overdue replacement is: its namespace's own only where the cause is seen to lie there."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from rebalancer.model.creation import QuotaScope, ResourceQuota, ServiceAccount
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Move, MoveState, OwnFailure
from rebalancer.model.pods import OwnerReference, Pod, PodPhase, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import PodTemplate, Workload
from rebalancer.tracking.arrivals import UNSCHEDULABLE
from rebalancer.tracking.own_failures import find_other_template, find_own_failure, is_in_doubt, note_own_failure
from tests.scheduling.build import NOW, ZONE, node
from tests.tracking.build import move

OWN_REFUSALS = [
    'pods "web-x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=60, limited: pods=60',
    'pods "web-x" is forbidden: failed quota: cpu: must specify limits.cpu for: app',
    'pods "web-x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
    'pods "web-x" is forbidden: maximum cpu usage per Container is 500m, but limit is 1',
    'pods "web-x" is forbidden: [minimum memory usage per Pod is 1Gi, but request is 1Mi]',
    'pods "web-x" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000',
    'pods "web-x" is forbidden: error looking up service account shop/web: serviceaccount "web" not found',
]
REFUSALS_OF_OTHERS = [
    'Internal error occurred: failed calling webhook "pods.example.com"',
    'admission webhook "pods.example.com" denied the request: exceeded quota: pods',
    'admission webhook "pods.example.com" denied the request: pods "web-x" is forbidden: exceeded quota: pods',
    "pods \"web-x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: exceeded quota: ",
    'pods "web-x" is forbidden: status unknown for quota: pods, resources: pods',
    'pods "web-x" is forbidden: no PriorityClass with name high was found',
    "etcdserver: request timed out",
]
SECOND = timedelta(seconds=1)
OWNER = OwnerReference(group="apps", kind="StatefulSet", name="web", uid="owner")
TEMPLATE = PodTemplate(requests=Resources(cpu=500, memory=100), service_account="web")
WEB = Workload(
    group="apps", kind="StatefulSet", namespace="shop", name="web", uid="owner", template=TEMPLATE, created=NOW
)
GONE = "registry.example/shop/web:1"
NODES = (node("c1", labels={ZONE: "c"}), node("c2", labels={ZONE: "c"}), node("b1", labels={ZONE: "b"}), node("x"))


def pod(name: str, *, namespace: str = "shop", image: str = GONE, at: datetime = NOW, **fields: Any) -> Pod:
    """Return a pod that runs on node c1."""
    fields = {"node": "c1", "phase": PodPhase.RUNNING, "ready": True, "spec": PodSpec(images=(image,)), **fields}
    return Pod(namespace=namespace, name=name, uid=name, created=at, **fields)


def failing(reason: str = "ImagePullBackOff", **fields: Any) -> Pod:
    """Return the replacement, which does not run; its image is gone, where no field says otherwise."""
    common = {"phase": PodPhase.PENDING, "ready": False, "start_failure": reason, "owner": OWNER}
    return pod("new", **{**common, "failed_image": str(fields.get("image", GONE)), **fields})


def snapshot(*pods: Pod, **fields: Any) -> Snapshot:
    return Snapshot(**{"taken_at": NOW, "nodes": NODES, "pods": pods, "workloads": (WEB,), **fields})


def uncreated(message: str) -> Move:
    return move("old", NOW, namespace="shop", owner_uid="owner", state=MoveState.EVICTED, uncreated=message)


def unstarted(reason: str = "ImagePullBackOff", **fields: Any) -> Move:
    fields = {"state": MoveState.PENDING, "unstarted": reason, "replacement": "new", **fields}
    return move("old", NOW, namespace="shop", owner_uid="owner", **fields)


@pytest.mark.parametrize("message", OWN_REFUSALS)
def test_what_an_object_of_the_namespace_refuses_is_its_own(message: str) -> None:
    """As the API server words it, and owners' conditions repeat it."""
    assert find_own_failure(uncreated(message), snapshot()) is OwnFailure.OBJECT
    assert not is_in_doubt(uncreated(message), snapshot())


@pytest.mark.parametrize("message", REFUSALS_OF_OTHERS)
def test_what_anybody_else_refuses_is_the_clusters(message: str) -> None:
    """Webhooks and policies are, also where they use the API server's words; and a full quota does not change that."""
    quota = ResourceQuota(namespace="shop", name="pods", hard=(("pods", 0),), used=(("pods", 1),))
    assert find_own_failure(uncreated(message), snapshot(quotas=(quota,))) is None


@pytest.mark.parametrize(
    ("hard", "used", "pods", "is_own"),
    [
        ((("pods", 2),), (("pods", 2),), 2, True),
        ((("pods", 3),), (("pods", 2),), 2, False),
        ((("pods", 2),), (("pods", 1),), 2, False),
        ((("pods", 2),), (("pods", 2),), 1, False),
        ((("requests.cpu", 1499),), (("requests.cpu", 1000),), 2, True),
        ((("requests.cpu", 1500),), (("requests.cpu", 1000),), 2, False),
        ((("services", 0),), (("services", 1),), 2, False),
        ((), (), 2, False),
    ],
)
def test_a_quota_is_full_by_its_status_and_by_the_pods_that_are_there(
    hard: tuple[tuple[str, int], ...], used: tuple[tuple[str, int], ...], pods: int, is_own: bool
) -> None:
    """A StatefulSet says nothing. The status alone may count pods that are gone: a controller manager is frozen."""
    requests = TEMPLATE.requests
    there = [pod(str(number), requests=requests) for number in range(pods)]
    leaving = pod("leaving", requests=requests, deleted=NOW)
    ended = pod("ended", requests=requests, phase=PodPhase.SUCCEEDED)
    quota = ResourceQuota(namespace="shop", name="quota", hard=hard, used=used)
    known = snapshot(*there, leaving, ended, quotas=(quota,))
    assert (find_own_failure(uncreated(""), known) is OwnFailure.OBJECT) == is_own
    scoped = structs.replace(quota, scopes=(QuotaScope("BestEffort"),))
    assert find_own_failure(uncreated(""), replace(known, quotas=(scoped,))) is None
    elsewhere = structs.replace(quota, namespace="cart")
    assert find_own_failure(uncreated(""), replace(known, quotas=(elsewhere,))) is None
    bare = structs.replace(WEB, template=None)
    assert find_own_failure(uncreated(""), replace(known, workloads=(bare,))) is None


def test_a_service_account_that_is_missing_is_the_namespaces_own() -> None:
    """Where service accounts are known; an owner that is not says nothing."""
    known = snapshot(known=frozenset({"ServiceAccount"}), service_accounts=(ServiceAccount("cart", "web"),))
    assert find_own_failure(uncreated(""), known) is OwnFailure.OBJECT
    there = replace(known, service_accounts=(ServiceAccount("shop", "web"),))
    assert find_own_failure(uncreated(""), there) is None
    assert find_own_failure(uncreated(""), replace(known, known=frozenset())) is None
    assert find_own_failure(uncreated(""), replace(known, workloads=())) is None
    assert find_own_failure(uncreated(""), replace(known, workloads=(structs.replace(WEB, template=None),))) is None


OTHER = pod("other", namespace="cart", image="registry.example/cart:2", at=NOW + SECOND)
"""A pod that shows that the registry serves others."""


def test_an_image_that_is_gone_is_the_namespaces_own_if_the_registry_serves_others() -> None:
    known = snapshot(failing(), OTHER)
    assert find_own_failure(unstarted(), known) is OwnFailure.IMAGE
    assert is_in_doubt(unstarted(), snapshot(failing())), "while nothing shows that the registry serves"
    assert find_own_failure(unstarted(), snapshot(failing())) is None
    same_second = structs.replace(OTHER, created=NOW)
    assert find_own_failure(unstarted(), snapshot(failing(), same_second)) is OwnFailure.IMAGE
    without_labels = (failing(node="x"), structs.replace(OTHER, node="x"))
    assert find_own_failure(unstarted(), snapshot(*without_labels)) is OwnFailure.IMAGE


def test_an_image_that_has_been_missing_since_before_is_missing_still() -> None:
    """A second pod lacks it later than the registry has served others; one that lacks another image says nothing."""
    first = structs.replace(failing(at=NOW - 9 * SECOND), uid="first", name="first")
    served = structs.replace(OTHER, created=NOW - SECOND)
    assert find_own_failure(unstarted(), snapshot(first, failing(), served)) is OwnFailure.IMAGE
    another = structs.replace(first, failed_image="registry.example/shop/db:1")
    assert find_own_failure(unstarted(), snapshot(another, failing(), served)) is None
    crashes = structs.replace(first, start_failure="CrashLoopBackOff")
    assert find_own_failure(unstarted(), snapshot(crashes, failing(), served)) is None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(structs.replace(OTHER, created=NOW - SECOND), id="from before the failure"),
        pytest.param(structs.replace(OTHER, namespace="shop"), id="of the same namespace"),
        pytest.param(structs.replace(OTHER, phase=PodPhase.PENDING), id="does not run"),
        pytest.param(structs.replace(OTHER, start_failure="ImagePullBackOff"), id="lacks an image itself"),
        pytest.param(structs.replace(OTHER, spec=PodSpec(images=("quay.example/cart:2",))), id="another registry"),
        pytest.param(structs.replace(OTHER, spec=PodSpec(images=("cart",))), id="the default registry"),
        pytest.param(structs.replace(OTHER, node="b1"), id="in another zone"),
        pytest.param(structs.replace(OTHER, node=None), id="on no node"),
    ],
)
def test_what_does_not_show_that_the_registry_serves(other: Pod) -> None:
    assert find_own_failure(unstarted(), snapshot(failing(), other)) is None


def test_an_image_that_was_on_the_node_before_shows_nothing_of_the_registry() -> None:
    earlier = structs.replace(OTHER, uid="earlier", name="earlier", created=NOW - SECOND)
    assert find_own_failure(unstarted(), snapshot(failing(), OTHER, earlier)) is None
    on_another = structs.replace(earlier, node="c2")
    assert find_own_failure(unstarted(), snapshot(failing(), OTHER, on_another)) is OwnFailure.IMAGE


def test_a_node_on_which_several_namespaces_lack_images_may_be_what_is_wrong() -> None:
    """Then a pod on another node of the zone shows nothing, one on that node does."""
    too = structs.replace(failing(image="registry.example/api:1"), uid="too", name="too", namespace="api")
    beside = structs.replace(OTHER, node="c2")
    assert find_own_failure(unstarted(), snapshot(failing(), beside)) is OwnFailure.IMAGE
    assert find_own_failure(unstarted(), snapshot(failing(), too, beside)) is None
    assert find_own_failure(unstarted(), snapshot(failing(), too, OTHER)) is OwnFailure.IMAGE


@pytest.mark.parametrize(
    ("image", "same"),
    [
        (GONE, True),
        ("registry.example/shop/web:2", False),
        ("web", False),
    ],
)
def test_an_image_that_another_namespace_runs_may_be_had(image: str, same: bool) -> None:
    old = pod("old-cart", namespace="cart", image=image, at=NOW - SECOND)
    assert (find_own_failure(unstarted(), snapshot(failing(), old, OTHER)) is None) == same
    assert is_in_doubt(unstarted(), snapshot(failing(), old)) != same
    ended = structs.replace(old, phase=PodPhase.SUCCEEDED)
    assert find_own_failure(unstarted(), snapshot(failing(), ended, OTHER)) is OwnFailure.IMAGE


@pytest.mark.parametrize("name", ["nginx", "nginx:latest", "library/nginx", "docker.io/library/nginx:latest"])
def test_an_image_has_several_names(name: str) -> None:
    """Without registry, directory and tag, the defaults."""
    lacks = failing(image="docker.io/nginx")
    old = pod("old-cart", namespace="cart", image=name, at=NOW - SECOND)
    assert not is_in_doubt(unstarted(), snapshot(lacks, old))
    assert is_in_doubt(unstarted(), snapshot(lacks, pod("old-cart", namespace="cart", image=f"localhost/{name}")))


def test_what_is_not_known_of_an_image_is_the_clusters() -> None:
    assert find_own_failure(unstarted(), snapshot(OTHER)) is None, "the replacement is gone"
    assert find_own_failure(unstarted(), snapshot(failing(failed_image=""), OTHER)) is None
    assert find_own_failure(unstarted(), snapshot(failing("OutOfcpu"), OTHER)) is None, "its node refused it"


def crash(revision: str = "2", **fields: Any) -> Pod:
    return failing("CrashLoopBackOff", labels=Labels({"controller-revision-hash": revision}), **fields)


def test_a_crash_of_a_template_that_never_ran_is_the_namespaces_own() -> None:
    """The evicted pod was of another one, and no other pod of this one has run."""
    moved = unstarted("CrashLoopBackOff", template="1")
    old = pod("web-1", labels=Labels({"controller-revision-hash": "1"}), owner=OWNER)
    new = structs.replace(old, labels=Labels({"controller-revision-hash": "2"}))
    too = structs.replace(new, phase=PodPhase.PENDING, ready=False, start_failure="CrashLoopBackOff")
    assert find_own_failure(moved, snapshot(crash(), old, too)) is OwnFailure.TEMPLATE
    assert find_own_failure(moved, snapshot(crash(), old, new)) is None
    assert find_own_failure(moved, snapshot(crash(), structs.replace(new, ready=False))) is None
    assert find_own_failure(structs.replace(moved, template="2"), snapshot(crash(), old)) is None
    assert find_own_failure(structs.replace(moved, template=UNSET), snapshot(crash(), old)) is None
    assert find_own_failure(moved, snapshot(structs.replace(crash(), labels=Labels({})), old)) is None
    assert find_own_failure(moved, snapshot(structs.replace(crash(), owner=None), old)) is None
    assert not is_in_doubt(moved, snapshot(crash(), old))


def test_the_template_of_a_pod_is_stored_where_its_owner_creates_another() -> None:
    """As a StatefulSet does whose pods get the new one once they are deleted; within a partition it creates the old."""
    old = pod("web-1", labels=Labels({"controller-revision-hash": "1"}))
    on_delete = structs.replace(WEB, revision="2", current_revision="1", on_delete=True, replicas=3)
    assert find_other_template(old, on_delete) == "1"
    assert find_other_template(old, structs.replace(on_delete, revision="1")) is UNSET
    partitioned = structs.replace(on_delete, on_delete=False, partition=2)
    assert find_other_template(old, partitioned) is UNSET
    for unknown in (None, WEB):
        assert find_other_template(old, unknown) is UNSET
    assert find_other_template(structs.replace(old, labels=Labels({})), on_delete) is UNSET


def test_a_failure_is_noted_for_as_long_as_it_lasts() -> None:
    """Also between two attempts to start, and when the move has been given up; not when it is another failure."""
    noted = note_own_failure(unstarted(), snapshot(failing(), OTHER))
    assert noted.own_failure is OwnFailure.IMAGE
    assert note_own_failure(noted, snapshot(failing(""), OTHER)) is noted
    assert note_own_failure(noted, snapshot()) is noted
    assert note_own_failure(noted, snapshot(failing())).own_failure is None, "nothing shows any more that it is"
    waits = structs.replace(noted, unstarted=UNSCHEDULABLE)
    assert note_own_failure(waits, snapshot(failing("", node=None))).own_failure is None
    refused = structs.replace(noted, unstarted=None, uncreated="denied")
    assert note_own_failure(refused, snapshot()).own_failure is None
    arrived = structs.replace(noted, unstarted=None)
    assert note_own_failure(arrived, snapshot()).own_failure is None
    lost = structs.replace(arrived, state=MoveState.LOST)
    assert note_own_failure(lost, snapshot()) is lost


IMAGES = st.sampled_from([GONE, "registry.example/cart:2", "registry.example/api", "cart:2"])
PODS = st.lists(
    st.tuples(
        st.sampled_from(["shop", "cart", "api"]),
        IMAGES,
        st.integers(-1, 1),
        st.sampled_from(["c1", "c2", "b1"]),
        st.sampled_from(["", "ImagePullBackOff", "ContainerCreating"]),
    ),
    max_size=5,
)


def registry(image: str) -> str:
    return "registry.example" if image.startswith("registry.example/") else "docker.io"


def is_own_by_definition(others: Sequence[Pod]) -> bool:
    """Say it of GONE in namespace shop, on node c1 in zone c, from the definition, without a shortcut."""
    foreign = [other for other in others if other.namespace != "shop"]
    running = [other for other in foreign if other.phase is PodPhase.RUNNING]
    if any(other.spec.images == (GONE,) for other in running):
        return False
    lacking = [("c1", NOW)]
    lacking += [(str(one.node), one.created) for one in others if one.failed_image == GONE and one.namespace == "shop"]
    for on, since in lacking:
        bad_node = any(other.node == on and other.start_failure for other in foreign)
        near = {on} if bad_node or on == "b1" else {"c1", "c2"}
        for witness in running:
            cached = any(
                other.node == witness.node and other.spec == witness.spec and other.created < since for other in others
            )
            serves = registry(witness.spec.images[0]) == "registry.example"
            if serves and witness.created >= since and witness.node in near and not cached:
                return True
    return False


@given(PODS)
def test_an_image_is_the_namespaces_own_exactly_by_the_definition(
    drawn: list[tuple[str, str, int, str, str]],
) -> None:
    """Over any pods beside the one that fails."""
    others = []
    for number, (namespace, image, second, on, state) in enumerate(drawn):
        runs = not state
        others.append(
            pod(
                f"p{number}",
                namespace=namespace,
                image=image,
                at=NOW + second * SECOND,
                node=on,
                phase=PodPhase.RUNNING if runs else PodPhase.PENDING,
                ready=runs,
                start_failure=state if state == "ImagePullBackOff" else "",
                failed_image=image if state == "ImagePullBackOff" else "",
            )
        )
    own = find_own_failure(unstarted(), snapshot(failing(), *others))
    assert (own is OwnFailure.IMAGE) == is_own_by_definition(others)
