"""A rollout step by step, against all its ways: each enumerated pod by pod, with rules written down once more."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Finding, Rule
from rebalancer.lint.ground import Ground
from rebalancer.lint.steps import check_steps
from rebalancer.model.creation import ResourceQuota
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import affinity, deployment, manifests, patched, spread, term, text

CORE = 1_000
HASH = ["pod-template-hash"]

Ways = tuple[tuple[str, ...], tuple[str, ...]]
"""The nodes of the old pods that are left, and of the new ones."""


def containers(cores: int) -> list[dict[str, Any]]:
    return [{"name": "web", "image": "web", "resources": {"requests": {"cpu": cores}}}]


def update(surge: int, unavailable: int) -> dict[str, Any]:
    return {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def step_findings(snapshot: Snapshot, *objects: dict[str, Any]) -> list[Finding]:
    read = manifests(text(*objects))
    ground = Ground(snapshot, read)
    return [one for manifest in read.workloads for one in check_steps(manifest, ground)]


def said(snapshot: Snapshot, *objects: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.severity.value, one.message) for one in step_findings(snapshot, *objects)]


@dataclass(frozen=True)
class Drawn:
    """Nodes `<zone>-<number>` of some cores, where old pods run, and what the new ones ask for."""

    cores: dict[str, int]
    old: tuple[str, ...]
    old_cores: int
    new_cores: int
    max_skew: int | None
    own_revision: bool
    apart: bool
    surge: int
    unavailable: int
    stateful: bool

    def snapshot(self) -> Snapshot:
        blueprint = ClusterBuilder()
        for name, cores in self.cores.items():
            blueprint.node(name, cpu=cores * CORE, zone=name[0])
        # The pods of a StatefulSet have their ordinals in the order of the nodes.
        on = {node: self.old.count(node) for node in sorted(set(self.old))}
        make = blueprint.stateful_set if self.stateful else blueprint.deployment
        make("web", namespace="shop", on=on, cpu=self.old_cores * CORE)
        return blueprint.snapshot()

    def manifest(self) -> dict[str, Any]:
        keys: dict[str, Any] = {"matchLabelKeys": HASH} if self.own_revision else {}
        constraints = [spread(max_skew=self.max_skew, **keys)] if self.max_skew is not None else []
        return deployment(
            len(self.old),
            kind="StatefulSet" if self.stateful else "Deployment",
            containers=containers(self.new_cores),
            topologySpreadConstraints=constraints,
            **({} if self.stateful else {"strategy": update(self.surge, self.unavailable)}),
            **({"affinity": affinity(apart=[term()])} if self.apart else {}),
        )

    def admits(self, node: str, ways: Ways) -> bool:
        left, placed = ways
        used = self.old_cores * left.count(node) + self.new_cores * placed.count(node)
        if used + self.new_cores > self.cores[node] or (self.apart and node in left + placed):
            return False
        counted = placed if self.own_revision and not self.stateful else left + placed
        zones = {name[0]: 0 for name in self.cores} | Counter(name[0] for name in counted)
        return self.max_skew is None or zones[node[0]] + 1 - min(zones.values()) <= self.max_skew

    def steps(self, ways: Ways, *, ranked: bool) -> Iterator[Ways]:
        left, placed = ways
        number = len(self.old)
        surge, unavailable = (0, 1) if self.stateful else (self.surge, self.unavailable)
        if len(placed) < min(number, number + surge - len(left)):
            for node in self.cores:
                if self.admits(node, ways):
                    yield left, (*placed, node)
        if left and len(left) + len(placed) > number - unavailable:
            crowds = Counter(left + placed)
            first = max(crowds[node] for node in left)
            for at, node in enumerate(left):
                if self.stateful and at != len(left) - 1:
                    continue
                if self.stateful or not ranked or crowds[node] == first:
                    yield (*left[:at], *left[at + 1 :]), placed

    def find(self, is_sought: Callable[[Ways], bool], *, ranked: bool) -> bool:
        """Return whether such a state is reached on any way."""
        start: Ways = tuple(sorted(self.old)), ()
        seen, stack = set[Ways](), [start]
        while stack:
            ways = stack.pop()
            if ways in seen:
                continue
            seen.add(ways)
            if is_sought(ways):
                return True
            stack += [(left, tuple(sorted(placed))) for left, placed in self.steps(ways, ranked=ranked)]
        return False

    def has_ended(self, ways: Ways) -> bool:
        return not ways[0] and len(ways[1]) == len(self.old)

    @property
    def expected(self) -> str:
        """Return the severity that follows from all ways."""
        if not self.find(self.has_ended, ranked=False):
            return "error"
        wedges = self.find(
            lambda ways: not self.has_ended(ways) and not any(self.steps(ways, ranked=False)), ranked=True
        )
        return "warning" if wedges else ""


@st.composite
def drawn_rollouts(draw: st.DrawFn) -> Drawn:
    names = [f"{zone}-{number}" for zone in "abc"[: draw(st.integers(1, 3))] for number in (1, 2)]
    cores = {name: draw(st.integers(2, 5)) for name in names[: draw(st.integers(2, len(names)))]}
    old_cores, left = draw(st.integers(1, 2)), dict(cores)
    old: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        fitting = [name for name in cores if left[name] >= old_cores]
        if fitting:
            old.append(draw(st.sampled_from(fitting)))
            left[old[-1]] -= old_cores
    surge = draw(st.integers(0, 2))
    return Drawn(
        cores=cores,
        old=tuple(old),
        old_cores=old_cores,
        new_cores=draw(st.integers(1, 4)),
        max_skew=draw(st.sampled_from([None, 1, 1, 2])),
        own_revision=draw(st.booleans()),
        apart=draw(st.sampled_from([False, False, True])),
        surge=surge,
        unavailable=draw(st.integers(0 if surge else 1, 2)),
        stateful=draw(st.sampled_from([False, False, False, True])),
    )


@given(drawn_rollouts())
def test_errors_wedge_on_every_way_and_warnings_on_one(drawn: Drawn) -> None:
    """Whichever nodes the scheduler picks, and whichever old pods go that the controller may take away."""
    found = step_findings(drawn.snapshot(), drawn.manifest())
    severity = found[0].severity.value if found else ""
    event(severity or "ends")
    assert severity == drawn.expected


def three_nodes(cores: int, each: int, of: int) -> ClusterBuilder:
    """Return three zones of one node, with so many pods of some cores on each."""
    blueprint = ClusterBuilder()
    for zone in "abc":
        blueprint.node(f"{zone}-1", cpu=cores * CORE, zone=zone)
    blueprint.deployment("web", namespace="shop", on={f"{zone}-1": each for zone in "abc"}, cpu=of * CORE)
    return blueprint


LARGER = deployment(6, containers=containers(6), strategy=update(1, 0))


def test_the_last_pod_of_a_rollout_that_finds_no_room() -> None:
    """The first five do. One pod that may be missing helps, and only that."""
    snapshot = three_nodes(16, 2, 5).snapshot()
    (one,) = step_findings(snapshot, LARGER)
    assert (one.severity.value, one.message) == (
        "error",
        (
            "the rollout wedges after at most 5 of 6 new pods, such as with these on b-1 (2), c-1 (2), a-1: 1 old pod "
            "stays, since none may be missing, and no node takes another new one: of 3 nodes 3 have not enough cpu"
        ),
    )
    assert step_findings(snapshot, patched(LARGER, one)) == []


def test_a_rollout_that_wedges_where_the_scheduler_takes_the_wrong_node() -> None:
    """The larger node alone takes a new pod beside an old one. If its own old pod stays, nothing fits any more."""
    blueprint = ClusterBuilder()
    blueprint.node("a-1", cpu=3 * CORE, zone="a")
    blueprint.node("a-2", cpu=5 * CORE, zone="a")
    blueprint.deployment("web", namespace="shop", on={"a-1": 1, "a-2": 1}, cpu=CORE)
    assert said(blueprint.snapshot(), deployment(2, containers=containers(3), strategy=update(1, 0))) == [
        (
            "warning",
            (
                "the rollout can wedge after 1 of 2 new pods, such as with these on a-2: 1 old pod stays, since none "
                "may be missing, and no node takes another new one: of 2 nodes 2 have not enough cpu"
            ),
        )
    ]


def test_what_else_moves_makes_no_error() -> None:
    """Another manifest that changes, or another pod that waits: what these do may help."""
    blueprint = three_nodes(16, 2, 5)
    blueprint.deployment("api", namespace="shop", on={"a-1": 0}, replicas=0, cpu=CORE)
    other = deployment(1, containers=containers(1)) | {"metadata": {"name": "api", "namespace": "shop"}}
    assert [severity for severity, _ in said(blueprint.snapshot(), LARGER, other)] == ["warning"]
    waiting = three_nodes(16, 2, 5)
    waiting.deployment("api", namespace="shop", on={"a-1": 1}, cpu=CORE)
    snapshot = waiting.snapshot()
    pods = [structs.replace(pod, node=None) if pod.name.startswith("api") else pod for pod in snapshot.pods]
    assert [severity for severity, _ in said(replace(snapshot, pods=tuple(pods)), LARGER)] == ["warning"]


def quota(snapshot: Snapshot, hard: int, used: int) -> Snapshot:
    made = ResourceQuota(namespace="shop", name="few", hard=(("pods", hard),), used=(("pods", used),))
    return replace(snapshot, quotas=(made,))


def test_new_pods_are_kept_apart_from_their_own_revision_alone() -> None:
    """With matchLabelKeys a new pod goes beside an old one."""
    own = affinity(apart=[term(matchLabelKeys=HASH)])
    made = deployment(3, containers=containers(1), affinity=own, strategy=update(1, 0))
    (snapshot, read) = three_nodes(16, 1, 1).snapshot(), manifests(text(made))
    assert [one for one in lint(read, Ground(snapshot, read)) if one.rule is Rule.ROLLOUT_WEDGES] == []


def test_a_quota_without_room_for_one_more_pod() -> None:
    """Each new pod counts before an old one goes."""
    small = deployment(6, containers=containers(1), strategy=update(1, 0))
    snapshot = three_nodes(16, 2, 1).snapshot()
    assert said(quota(snapshot, 7, 6), small) == []
    assert said(quota(snapshot, 6, 6), small) == [
        (
            "error",
            (
                "the rollout does not begin: 6 old pods stay, since none may be missing, and "
                "ResourceQuota shop/few limits pods to 6, and one more new pod needs 7"
            ),
        )
    ]


def stateful(**fields: Any) -> tuple[Snapshot, dict[str, Any]]:
    """Return three pods web-0 to web-2 on nodes of which only c-1 has room for a larger one."""
    blueprint = ClusterBuilder()
    for zone, cores in (("a", 4), ("b", 4), ("c", 8)):
        blueprint.node(f"{zone}-1", cpu=cores * CORE, zone=zone)
    blueprint.stateful_set("web", namespace="shop", on={"a-1": 1, "b-1": 1, "c-1": 1}, cpu=2 * CORE)
    return blueprint.snapshot(), deployment(3, kind="StatefulSet", containers=containers(5), **fields)


def test_a_stateful_set_is_updated_from_the_highest_ordinal_down() -> None:
    """The next pod waits for a node for ever; a partition leaves the lower ones as they are."""
    assert said(*stateful()) == [
        (
            "error",
            (
                "the rollout wedges after at most 1 of 3 new pods, such as with these on c-1: 1 old pod stays, since "
                "each goes once the pod before it is Ready, and no node takes web-1: of 3 nodes 3 have not enough cpu"
            ),
        )
    ]
    assert said(*stateful(updateStrategy={"rollingUpdate": {"partition": 2}})) == []
    assert len(said(*stateful(updateStrategy={"rollingUpdate": {"partition": 1}}))) == 1
    assert said(*stateful(updateStrategy={"type": "OnDelete"})) == []


def test_a_stateful_set_in_order_waits_for_pods_that_are_not_ready() -> None:
    """A warning: it begins once the pod is. One whose pods are made in parallel does not wait."""
    snapshot, made = stateful()
    pods = [structs.replace(pod, ready=pod.name != "web-1") for pod in snapshot.pods]
    sick = replace(snapshot, pods=tuple(pods))
    assert said(sick, made) == [
        (
            "warning",
            (
                "the rollout does not begin before web-1 is Ready: podManagementPolicy is OrderedReady, so that the "
                "controller waits for each pod of the old template first"
            ),
        )
    ]
    assert said(sick, made | {"spec": {**made["spec"], "podManagementPolicy": "Parallel"}}) == []


@pytest.mark.parametrize(
    "made",
    [
        LARGER | {"spec": {**LARGER["spec"], "paused": True}},
        LARGER | {"spec": {**LARGER["spec"], "replicas": 5}},
        deployment(6, containers=containers(6), strategy={"type": "Recreate"}),
    ],
    ids=["paused", "scaled", "recreated"],
)
def test_rollouts_that_have_no_such_steps(made: dict[str, Any]) -> None:
    assert said(three_nodes(16, 2, 5).snapshot(), made) == []


def test_a_rollout_of_pods_that_are_not_ready_or_may_preempt_is_not_searched() -> None:
    snapshot = three_nodes(16, 2, 5).snapshot()
    sick = [structs.replace(pod, ready=pod.name[-1] != "1") for pod in snapshot.pods]
    assert said(replace(snapshot, pods=tuple(sick)), LARGER) == []
    lower = [structs.replace(pod, spec=structs.replace(pod.spec, priority=-1)) for pod in snapshot.pods]
    assert said(replace(snapshot, pods=tuple(lower)), LARGER) == []


def test_of_many_ways_only_some_are_tried() -> None:
    """The search for an end reaches its limit here, so that a wedge is no error; nor are 60 pods too many."""
    blueprint = ClusterBuilder()
    for number, zone in enumerate("abcde"):
        blueprint.node(f"{zone}-1", cpu=(8 + number) * CORE, zone=zone)
    on = {f"{zone}-1": 8 if zone == "a" else 2 for zone in "abcde"}
    blueprint.deployment("web", namespace="shop", on=on)
    made = deployment(16, containers=containers(3), strategy=update(3, 3))
    assert [severity for severity, _ in said(blueprint.snapshot(), made)] == ["warning"]
    more = three_nodes(50, 21, 2).snapshot()
    assert said(more, deployment(63, containers=containers(3), strategy=update(1, 0))) == []
