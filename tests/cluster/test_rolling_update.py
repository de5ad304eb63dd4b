"""A rolling update from an earlier commit to this tree and back: nothing is evicted twice, and nothing is lost.

Each scene leaves something open while the process of the earlier commit leads. Then one of this tree leads, then one of
the earlier commit again, and at last the repair ends. A successor runs before the leader ends, as with a Deployment's
rolling update. Capacity is held in mode Evict alone, and a plan is approved in mode Approve alone. So there are two
scenes: moves with placeholders, and moves with an approved plan of which most is still to come.

Two moves are open in both. The replacements are bound and do not become Ready: they have a label of the Deployments'
templates that keeps them from it. A budget in each of the two namespaces then allows no other eviction.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Any, Final

import pytest

from rebalancer.model.approvals import Proposal
from rebalancer.model.moves import CapacityRequest, CapacityState, MoveState
from tests.cluster.controller import NAMESPACE, ROOT, USER, Controller, environment, install, policy
from tests.cluster.test_approval import APPROVAL, read_plan
from tests.cluster.test_capacity import JOBS, QUICK_LEASE, by_zone, capacity_policy, lay_out_shop, nothing_left
from tests.cluster.test_kills_in_a_large_repair import read_memory, workload_of
from tests.cluster.test_namespaces import STATUS
from tests.cluster.test_slow_start import is_ready
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, node, nodes, pdb, spread
from tests.control_plane.manifests import HOSTNAME
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stages import NEVER_READY

pytestmark = pytest.mark.thorough

EARLIER: Final = os.environ.get("EARLIER_COMMIT", "d2e2317")
"""The commit that is updated from, and back to. Its dependencies are those of this tree."""
SPACES: Final = ("ops-0", "ops-1")
PER_SPACE: Final = 3
MOVES: Final = PER_SPACE * len(SPACES)
"""Each workload has two pods on one node, of which one has to go to another node."""
OPEN: Final = len(SPACES)
"""Slow start lets one move begin in each of the two namespaces."""
SHOP_BUDGET: Final = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web"
SHOP_MOVES: Final = 4
"""Twelve pods in two zones need four evictions once the third one has nodes."""
CYCLES: Final = 4
"""Cycles of a leader with everything open."""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the code of the earlier commit."""
    git = shutil.which("git") or "git"
    look_up = [git, "cat-file", "-e", f"{EARLIER}^{{commit}}"]
    if not shutil.which("git") or subprocess.run(look_up, cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip(f"commit {EARLIER} is not in the history of this checkout")
    folder = tmp_path_factory.mktemp("earlier")
    archive = subprocess.run([git, "archive", EARLIER, "rebalancer"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    command = [sys.executable, "-c", "import rebalancer; print(rebalancer.__file__)"]
    imported = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True).stdout
    assert Path(imported.strip()).is_relative_to(folder), "a process that is started there would run other code"
    return folder


@dataclass(frozen=True)
class Open:
    """What is open: as it is stored, and the Jobs of placeholders with their UIDs."""

    moves: frozenset[tuple[str, MoveState, datetime, str]]
    """UID of the victim, state, time of the request and UID of the replacement."""
    proposal: Proposal | None
    capacity: tuple[CapacityRequest, ...]
    jobs: frozenset[tuple[str, str]]

    def __str__(self) -> str:
        proposal = self.proposal
        plan = f"plan {proposal.hash} of {len(proposal.uids)}, approved: {proposal.approved}" if proposal else "no plan"
        capacity = ", ".join(f"capacity {one.state} with {len(one.placeholders)} placeholders" for one in self.capacity)
        return f"{len(self.moves)} moves, {plan}, {capacity or 'no capacity'}, {len(self.jobs)} Jobs"


def look(api: Api) -> Open:
    memory = read_memory(api)
    return Open(
        moves=frozenset((move.uid, move.state, move.requested_at, move.replacement) for move in memory.in_flight),
        proposal=memory.proposal,
        capacity=memory.capacity,
        jobs=frozenset((job["metadata"]["name"], job["metadata"]["uid"]) for job in api.list(JOBS)),
    )


def compare(before: Open, now: Open, how: Signals) -> None:
    """Check that all is open as it was; placeholders of a leader that has ended in order are others, as many."""
    if how is SIGKILL:
        assert now == before
        return
    assert (now.moves, now.proposal) == (before.moves, before.proposal)
    assert [need_of(request) for request in now.capacity] == [need_of(request) for request in before.capacity]
    assert now.jobs.isdisjoint(before.jobs)


def need_of(request: CapacityRequest) -> tuple[object, ...]:
    """Return what a request is for."""
    return (request.token, request.workloads, request.domains, len(request.placeholders), request.state)


@dataclass
class Update:
    """The processes of one update, of which one leads."""

    plane: ControlPlane
    folder: Path
    policy_text: str
    stack: ExitStack
    started: list[Controller] = field(default_factory=list)

    @property
    def leader(self) -> Controller:
        """The process that was started last."""
        return self.started[-1]

    def start(self, tree: Path) -> Controller:
        """Start a process with the code of a tree."""
        own = self.folder / f"process-{len(self.started)}"
        own.mkdir()
        self.started.append(
            self.stack.enter_context(Controller(self.plane, own, self.policy_text, *QUICK_LEASE, tree=tree))
        )
        return self.leader

    def replace(self, tree: Path, how: Signals) -> None:
        """Start a process with the code of a tree, end the one that leads, and wait for some cycles."""
        before = self.leader
        successor = self.start(tree)
        successor.wait_for("listening")
        assert not successor.log("leading")
        assert before.process is not None
        before.process.send_signal(how)
        assert before.wait(20) == (0 if how is SIGTERM else -SIGKILL)
        version = self.plane.api.get(STATUS)["metadata"]["resourceVersion"]
        successor.wait_for("cycle", count=CYCLES)
        assert self.plane.api.get(STATUS)["metadata"]["resourceVersion"] != version, "it has stored nothing"

    def go_there_and_back(self, earlier: Path, how: Signals) -> Open:
        """Replace the leader by one of this tree, and that by one of the earlier tree; return what is open then."""
        before = look(self.plane.api)
        for name, tree in (("this tree", ROOT), ("the earlier one", earlier)):
            self.replace(tree, how)
            now = look(self.plane.api)
            print(f"{CYCLES} cycles of {name} after {how.name}: {now}", flush=True)
            compare(before, now, how)
            assert self.leader.log("cycle")[-1]["now"] == 0
            before = now
        return before


@contextmanager
def update(plane: ControlPlane, folder: Path, policy_text: str, earlier: Path) -> Iterator[Update]:
    """Have a process of the earlier tree lead; it replaces the Lease, which the Role of this tree does not allow."""
    role = plane.api.get(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/rebalancer")
    for rule in role["rules"]:
        if {"get", "patch"} <= set(rule["verbs"]):
            rule["verbs"].append("update")
    plane.api.replace(role)
    with ExitStack() as stack:
        made = Update(plane, folder, policy_text, stack)
        made.start(earlier).wait_for("cycle")
        yield made
    for controller in made.started:
        assert '"level": "error"' not in controller.log_file.read_text()


def stuck(name: str, space: str, on: str) -> Workload:
    """Return a Deployment of two pods on a node; their replacements do not become Ready while they have a label."""
    made = deployment(
        name,
        {on: 2},
        namespace=space,
        cpu="10m",
        topologySpreadConstraints=[spread(HOSTNAME, labels={"app": name})],
    )
    for owner in made.owners:
        owner["spec"]["template"]["metadata"]["labels"][NEVER_READY] = ""
    return made


def lay_out_ops(plane: ControlPlane) -> None:
    """Lay the workloads of both namespaces out, on the nodes that exist."""
    names = [one["metadata"]["name"] for one in plane.api.list("/api/v1/nodes")]
    lay_out(plane, [stuck(f"web-{number}", space, names[number]) for space in SPACES for number in range(PER_SPACE)])


def pods_of(space: str) -> str:
    return f"/api/v1/namespaces/{space}/pods"


def make_ready(api: Api) -> None:
    """Let the replacements that exist become Ready."""
    for space in SPACES:
        for pod in api.list(pods_of(space), labels=NEVER_READY):
            api.patch(f"{pods_of(space)}/{pod['metadata']['name']}", {"metadata": {"labels": {NEVER_READY: None}}})


def is_repaired(api: Api) -> bool:
    """Return whether each of the workloads has two pods on two nodes, and all are Ready."""
    pods = [pod for space in SPACES for pod in api.list(pods_of(space))]
    places = {(workload_of(pod), pod["spec"].get("nodeName")) for pod in pods}
    return all(map(is_ready, pods)) and len(places) == len(pods) == 2 * MOVES


def hold(plane: ControlPlane) -> None:
    """Wait until one move is open in each namespace, with a budget that allows no other."""
    api = plane.api
    wait_until(lambda: len(plane.audit.evictions(user=USER)) == OPEN, what="the first evictions")
    for space in SPACES:
        api.create(pdb("all", {}, namespace=space, max_unavailable=1))
    for space in SPACES:
        wait_until(partial(_allows_nothing, api, space), what="the budget")
    wait_until(
        lambda: [move.state for move in read_memory(api).in_flight] == [MoveState.PENDING] * OPEN,
        what="the replacements",
    )


def _allows_nothing(api: Api, space: str) -> bool:
    status: dict[str, Any] = api.get(f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/all").get("status", {})
    return (status.get("expectedPods"), status.get("disruptionsAllowed")) == (2 * PER_SPACE, 0)


def finish(plane: ControlPlane, repaired: Callable[[], bool]) -> None:
    """Let every replacement become Ready until the repair is done."""

    def done() -> bool:
        make_ready(plane.api)
        return repaired()

    wait_until(done, what="the repair", timeout=120, interval=0.5)


def check_moves(plane: ControlPlane, minimum: int, opened: Open) -> None:
    """As many evictions as were proved, each of another pod; the moves that were open were followed to their end."""
    requests = plane.audit.evictions(user=USER)
    uids = [(request.body or {})["deleteOptions"]["preconditions"]["uid"] for request in requests]
    print(f"{len(requests)} requested evictions of {len(set(uids))} pods, proved {minimum}")
    assert len(set(uids)) == len(uids), "a pod was evicted twice"
    assert [request.code for request in requests] == [201] * minimum
    wait_until(lambda: not read_memory(plane.api).in_flight, what="the moves to end")
    moves = {move.uid: move for move in read_memory(plane.api).moves}
    assert {uid: moves[uid].state for uid in moves} == dict.fromkeys(uids, MoveState.VERIFIED)
    for uid, _, requested_at, replacement in opened.moves:
        assert (moves[uid].requested_at, moves[uid].replacement) == (requested_at, replacement)


def let_capacity_come(api: Api) -> None:
    api.create(node("c-0", zone="c", cpu="8"))


@pytest.mark.parametrize(
    ("how", "state"),
    [(SIGTERM, CapacityState.REQUESTED), (SIGKILL, CapacityState.REQUESTED), (SIGKILL, CapacityState.READY)],
    ids=lambda value: value.name,
)
def test_moves_and_placeholders_outlast_an_update_and_the_way_back(
    cluster: ControlPlane, tmp_path: Path, earlier: Path, how: Signals, state: CapacityState
) -> None:
    """The evictions are those that were proved; Jobs that a killed leader has left are neither deleted nor made again.

    A leader that ends in order deletes its Jobs, and the next one creates as many: it may be that none follows.
    """
    install(cluster, "base", "evict", "capacity")
    lay_out_shop(cluster)
    lay_out_ops(cluster)
    api = cluster.api
    api.patch(SHOP_BUDGET, {"spec": {"maxUnavailable": 0}})
    with update(cluster, tmp_path, capacity_policy(timeout="10m", settle="2s"), earlier) as processes:
        first = processes.leader.log("cycle")[0]
        hold(cluster)
        wait_until(lambda: len(api.list(JOBS)) == SHOP_MOVES, what="the placeholders")
        if state is CapacityState.READY:
            let_capacity_come(api)
            wait_until(lambda: [one.state for one in read_memory(api).capacity] == [state], what="the capacity")
        opened = processes.go_there_and_back(earlier, how)
        assert len(opened.moves) == OPEN
        (request,) = opened.capacity
        assert request.state is state
        assert sorted(name for name, _ in opened.jobs) == sorted(request.placeholders)
        assert len(opened.jobs) == SHOP_MOVES
        made = SHOP_MOVES * (len(processes.started) if how is SIGTERM else 1)
        assert count_jobs(cluster) == {"create": made, "delete": made - SHOP_MOVES}
        api.patch(SHOP_BUDGET, {"spec": {"maxUnavailable": 1}})
        if state is CapacityState.REQUESTED:
            let_capacity_come(api)
        finish(cluster, lambda: is_repaired(api) and by_zone(api) == {"a": 4, "b": 4, "c": 4})
        wait_until(lambda: nothing_left(api), what="the placeholders to go")
        check_moves(cluster, first["minimum"] + len(request.placeholders), opened)
        assert count_jobs(cluster) == {"create": made, "delete": made}


def count_jobs(plane: ControlPlane) -> Counter[str]:
    """Count the Jobs that were created and deleted, by verb."""
    requests = plane.audit.requests(user=USER, resource="jobs", verb=("create", "delete"))
    counts = Counter({"create": 0, "delete": 0})
    counts.update(request.verb for request in requests if request.code in {200, 201})
    return counts


@pytest.mark.parametrize("how", [SIGTERM, SIGKILL], ids=lambda how: how.name)
def test_moves_and_an_approved_plan_outlast_an_update_and_the_way_back(
    cluster: ControlPlane, tmp_path: Path, earlier: Path, how: Signals
) -> None:
    """One approval serves for all evictions of the plan, whoever carries them out."""
    install(cluster, "base", "evict")
    lay_out(cluster, nodes({"a": 2, "b": 2}))
    lay_out_ops(cluster)
    api = cluster.api
    with update(cluster, tmp_path, policy("Approve", budgets={"perNode": MOVES}), earlier) as processes:
        first = processes.leader.log("cycle")[0]
        wait_until(lambda: read_plan(cluster), what="the plan")
        plan = read_plan(cluster)
        assert len(plan["evictions"]) == MOVES
        api.patch(APPROVAL, {"data": {"approved": plan["planHash"]}})
        hold(cluster)
        opened = processes.go_there_and_back(earlier, how)
        assert len(opened.moves) == OPEN
        assert opened.proposal is not None
        assert (opened.proposal.hash, opened.proposal.approved) == (plan["planHash"], True)
        assert len(opened.proposal.uids) == MOVES
        finish(cluster, lambda: is_repaired(api))
        check_moves(cluster, first["minimum"], opened)
        assert {entry["pod"] for entry in plan["evictions"]} == {
            request.name for request in cluster.audit.evictions(user=USER)
        }
