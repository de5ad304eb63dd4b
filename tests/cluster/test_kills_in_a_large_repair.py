"""Killed time and again in the repair of sixty workloads: the next leader goes on where the last one was.

The evictions of a cycle are stored before they are requested. Half of the kills come as soon as planned evictions are
stored, so that some of them are never requested: what the next leader reads of their pods decides when they go.
"""

import contextlib
import itertools
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from rebalancer.documents.memory import parse_memory
from rebalancer.model.moves import Memory, MoveState
from rebalancer.tracking.moves import ANSWER_TIMEOUT
from rebalancer.tracking.windows import first_size
from tests.cluster.controller import USER, Controller, install, policy
from tests.cluster.test_namespaces import STATUS
from tests.control_plane.api import Api, wait_until
from tests.control_plane.audit import Request
from tests.control_plane.layout import Workload, deployment, lay_out_owned, nodes, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import pod_ready
from tests.control_plane.stages import GONE_AFTER, READY_AFTER
from tests.faults.availability import follow_absences, least_others
from tests.faults.checker import VIEW_SECONDS
from tests.faults.history import PodChange
from tests.faults.recorder import PodRecorder

T = TypeVar("T")
SPACES: Final = [f"team-{number}" for number in range(6)]
PER_SPACE: Final = 10
REPLICAS: Final = 5
FOUR, THREE = {"a": 4, "b": 1}, {"a": 3, "b": 2}
"""Placements of five pods in three zones, which are two evictions from 2/2/1, and one."""
MINIMUM: Final = 3 * len(SPACES) * PER_SPACE // 2
FLAGS: Final = ("--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s")
RULES: Final = policy("Evict", interval="10s", budgets={"perMinute": 40, "perNode": 20})
"""Slow start as shipped. The rate makes the repair last longer than the kills."""
SETTLE_SECONDS: Final = 2.0
"""After a kill: until the API server has carried out or dropped a request that was under way. Nobody leads yet then."""


def skewed(number: int, space: str) -> Workload:
    """Return a Deployment of five pods, of which one or two are too many in zone a."""
    name = f"web-{number}"
    placement = FOUR if number % 2 else THREE
    on = [f"{zone}-{(number + index) % 4}" for zone, count in placement.items() for index in range(count)]
    return deployment(
        name,
        on,
        namespace=space,
        labels={"app": name},
        cpu="10m",
        annotations={READY_AFTER: "2s", GONE_AFTER: "1s"},
        topologySpreadConstraints=[spread(ZONE, labels={"app": name})],
    )


def read_log(controller: Controller, event: str) -> list[dict[str, Any]]:
    """Return the lines of one event; the last line of a killed process may be cut off."""
    lines = []
    for line in controller.log_file.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            lines.append(json.loads(line))
    return [line for line in lines if line.get("event") == event]


def poll(read: Callable[[], T | None], what: str, timeout: float) -> T:
    """Return the first answer that is not None or false; unlike `wait_until`, it is asked every few milliseconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if answer := read():
            return answer
        time.sleep(0.005)
    raise AssertionError(f"waited in vain for {what}")


def read_memory(api: Api) -> Memory:
    return parse_memory(api.get(STATUS).get("data", {}).get("memory.json", ""))


def window_sizes(memory: Memory) -> dict[str, int]:
    return {window.namespace: window.size for window in memory.windows}


def workload_of(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['labels']['app']}"


def count_zones(pods: Sequence[dict[str, Any]]) -> dict[str, Counter[str]]:
    """Count the pods of each workload by zone, of those that are complete: all are bound and none is terminating."""
    members = defaultdict(list)
    for pod in pods:
        if "app" in pod["metadata"].get("labels", {}):
            members[workload_of(pod)].append(pod)
    return {
        name: Counter(pod["spec"]["nodeName"][0] for pod in those)
        for name, those in members.items()
        if len(those) == REPLICAS
        and all(pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"] for pod in those)
    }


def skew(zones: Mapping[str, int]) -> int:
    counts = [zones.get(zone, 0) for zone in "abc"]
    return max(counts) - min(counts)


@dataclass
class Left:
    """What a killed leader has left behind: what is stored, and what is so."""

    memory: Memory
    violated: frozenset[str]
    """The workloads that are complete, and violate their constraint."""
    minimum: int
    """The evictions that these need: five pods are spread as 2/2/1."""
    unrequested: frozenset[str]
    """UIDs of the pods of planned moves that are as they were."""
    looked_at: datetime

    def late(self, requests: Sequence[Request]) -> frozenset[str]:
        """Return the UIDs of pods whose evictions the API server had then and carried out later: a busy one takes long.

        A 504 is of one whose client was killed: it was carried out if no later request for the same pod was needed.
        """
        granted = {uid_of(request) for request in requests if request.code == 201}
        return frozenset(
            uid_of(request)
            for request in requests
            if request.received < self.looked_at
            and (
                (request.code == 201 and self.looked_at <= request.answered)
                or (request.code == 504 and uid_of(request) in self.unrequested - granted)
            )
        )


def uid_of(eviction: Request) -> str:
    uid: str = (eviction.body or {})["deleteOptions"]["preconditions"]["uid"]
    return uid


def look(api: Api) -> Left:
    looked_at = datetime.now(UTC)
    memory, pods = read_memory(api), api.list("/api/v1/pods")
    living = {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    planned = {move.uid for move in memory.moves if move.state is MoveState.PLANNED}
    complete = count_zones(pods)
    violated = frozenset(name for name, zones in complete.items() if skew(zones) > 1)
    minimum = sum(max(0, number - 2) for name in violated for number in complete[name].values())
    return Left(memory, violated, minimum, frozenset(planned & living), looked_at)


@dataclass
class Replicas:
    """Two processes, of which one waits; whichever is killed is replaced."""

    plane: ControlPlane
    folder: Path
    stack: contextlib.ExitStack
    running: list[Controller] = field(default_factory=list)
    started: int = 0

    def start(self) -> None:
        self.started += 1
        folder = self.folder / f"process-{self.started}"
        folder.mkdir()
        self.running.append(self.stack.enter_context(Controller(self.plane, folder, RULES, *FLAGS)))

    def leader(self) -> Controller | None:
        return next((one for one in self.running if read_log(one, "leading")), None)

    def kill(self, leader: Controller) -> None:
        assert leader.process is not None
        leader.process.kill()
        leader.process.wait()
        self.running.remove(leader)
        self.start()


@contextlib.contextmanager
def record(plane: ControlPlane) -> Iterator[list[PodRecorder]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(PodRecorder(plane, space, "app")) for space in SPACES]


@pytest.mark.invariant("no-second-eviction")
@pytest.mark.invariant("takeover")
def test_killed_ten_times(cluster: ControlPlane, tmp_path: Path) -> None:
    """The minimum is evicted, one pod of a workload at a time, as slow start allows, and no skew counts as repaired."""
    repair_under_kills(cluster, tmp_path, kills=10, first_cycles=5)


@pytest.mark.thorough
def test_killed_twenty_times(cluster: ControlPlane, tmp_path: Path) -> None:
    """The same; the last kill comes late in the repair."""
    repair_under_kills(cluster, tmp_path, kills=20, first_cycles=10)


def repair_under_kills(cluster: ControlPlane, tmp_path: Path, *, kills: int, first_cycles: int) -> None:
    """As many leaders have a first cycle before they are killed; on a busy machine that takes a few kills more."""
    began = time.monotonic()
    install(cluster, "base", "evict")
    workloads = [skewed(number, space) for space in SPACES for number in range(PER_SPACE)]
    lay_out_owned(cluster, nodes({"a": 4, "b": 4, "c": 4}), workloads, timeout=180)
    draw = random.Random(7)
    lefts: list[Left] = []
    successors: list[Controller] = []
    with record(cluster) as recorders, contextlib.ExitStack() as stack:
        initial = frozenset(change.uid for recorder in recorders for change in recorder.changes)
        replicas = Replicas(cluster, tmp_path, stack)
        replicas.start()
        replicas.start()
        leader = poll(replicas.leader, "the first leader", 60)
        first = leader.wait_for("cycle")[0]
        planned_at = 0.0
        for kill in itertools.count():
            if kill >= kills:
                if sum(bool(read_log(one, "cycle")) for one in successors) >= first_cycles:
                    break
                leader.wait_for("cycle")
            if kill % 2:
                with contextlib.suppress(AssertionError):  # the rate may allow nothing for some seconds
                    poll(partial(plans_more, cluster.api, planned_at), "planned evictions", 5)
                time.sleep(draw.choice([0.0, 0.0, 0.02, 0.25]))
            else:
                time.sleep(4.0 * draw.random())
            replicas.kill(leader)
            planned_at = time.time()
            time.sleep(SETTLE_SECONDS)
            lefts.append(look(cluster.api))
            leader = poll(replicas.leader, f"a leader after kill {kill + 1}", 30)
            successors.append(leader)
        wait_until(lambda: is_repaired(cluster.api), what="the repair of all", timeout=200)
        leader.wait_for("cycle", count=len(read_log(leader, "cycle")) + 1)
        last = read_log(leader, "cycle")[-1]
    assert [recorder.error for recorder in recorders if recorder.error] == []
    assert lefts[-1].violated, "the last kill came after the repair"
    assert (first["violated"], first["minimum"]) == (len(workloads), MINIMUM)
    assert (last["violated"], last["minimum"]) == (0, 0)
    checked = check_first_cycles(lefts, successors, cluster.audit.evictions(user=USER))
    assert checked >= first_cycles
    check_windows(lefts)
    evicted = check_evictions(cluster, lefts)
    check_pods(recorders, initial, evicted)
    print(f"{time.monotonic() - began:.0f} s in all")


def plans_more(api: Api, since: float) -> bool:
    """Return whether evictions have been planned since then, in seconds since 1970, that are stored as not granted."""
    planned = (move for move in read_memory(api).moves if move.state is MoveState.PLANNED)
    return any(move.requested_at.timestamp() > since for move in planned)


def is_repaired(api: Api) -> bool:
    pods = api.list("/api/v1/pods")
    zones = count_zones(pods)
    complete = len(zones) == len(SPACES) * PER_SPACE and all(skew(counts) <= 1 for counts in zones.values())
    return complete and all(pod_ready(pod) for pod in pods if "app" in pod["metadata"].get("labels", {}))


def check_first_cycles(lefts: Sequence[Left], successors: Sequence[Controller], requests: Sequence[Request]) -> int:
    """Every workload that is skewed when a leader ends is violated in the first cycle of the next one.

    But for what the API server carries out after the look at what was left. Returns the number of first cycles.
    """
    checked, unexecuted = 0, 0
    for number, (left, successor) in enumerate(zip(lefts, successors, strict=True), 1):
        read = read_log(successor, "planned evictions of the last leader")
        unexecuted += sum(line["unexecuted"] for line in read)
        cycles = read_log(successor, "cycle")
        if not cycles:  # it was killed before
            continue
        checked += 1
        violated, minimum = cycles[0]["violated"], cycles[0]["minimum"]
        print(
            f"kill {number}: {len(left.unrequested)} planned evictions not carried out, "
            f"{len(left.violated)} workloads violated, minimum {left.minimum}; "
            f"the next leader says {violated}, minimum {minimum}"
        )
        late = left.late(requests)
        assert violated >= len(left.violated) - len(late), f"after kill {number}: {cycles[0]}"
        assert minimum >= left.minimum - len(late), f"after kill {number}: {cycles[0]}"
        found = sum(line["unexecuted"] for line in read)
        assert len(left.unrequested - late) <= found <= len(left.unrequested), f"after kill {number}"
    print(f"{checked} first cycles, {unexecuted} planned evictions that were not carried out")
    assert unexecuted > 0, "no kill came between storing and requesting: the test proves nothing"
    return checked


def check_windows(lefts: Sequence[Left]) -> None:
    """Check that the windows of slow start go on with the next leader: none becomes smaller during the repair."""
    sizes: dict[str, int] = {}
    for number, left in enumerate(lefts, 1):
        now = window_sizes(left.memory)
        smaller = {space: size for space, size in sizes.items() if now.get(space, first_size(space)) < size}
        assert not smaller, f"at kill {number} the windows are {now}, before {smaller}"
        sizes = now
    print(f"windows at the last kill: {sizes}")


def check_evictions(plane: ControlPlane, lefts: Sequence[Left]) -> dict[str, datetime]:
    """As many evictions as the proved minimum are granted, each of another pod.

    Returns the UIDs of the pods that they may have taken, with the moment of the first request.
    """
    requests = plane.audit.evictions(user=USER)
    granted = {uid_of(request): request.answered for request in requests if request.code == 201}
    number = sum(request.code == 201 for request in requests)
    print(f"{len(requests)} requests, {number} granted, codes {dict(Counter(request.code for request in requests))}")
    assert number == len(granted), "a pod was evicted twice"
    # One whose client was killed is carried out, or not; the audit log says 504 of both.
    unanswered = {uid_of(request) for request in requests if request.code == 504} - granted.keys()
    assert number <= MINIMUM <= number + len(unanswered)
    waits = {
        move.uid: (granted[move.uid] - move.requested_at).total_seconds()
        for left in lefts
        for move in left.memory.moves
        if move.uid in left.unrequested and move.uid in granted
    }
    planned = {uid for left in lefts for uid in left.unrequested}
    waited = sorted(waits.values())
    print(f"of {len(planned)} pods that were not evicted at a kill {len(waits)} were later, after (s): {waited}")
    assert waited
    assert waited[len(waited) // 2] < ANSWER_TIMEOUT.total_seconds() / 2, "most go as soon as a process leads"
    may_go = sorted((one for one in requests if one.code in (201, 504)), key=lambda one: one.received, reverse=True)
    return {uid_of(request): request.received for request in may_go}


def check_pods(recorders: Sequence[PodRecorder], initial: frozenset[str], evicted: Mapping[str, datetime]) -> None:
    """Never are two pods of a workload out by us, nor is one evicted while others are seen to be out.

    Few are under way at first, and one more for each that has arrived.
    """
    worst, others = 0, 0
    for recorder in recorders:
        of_workload: defaultdict[str, list[PodChange]] = defaultdict(list)
        for change in sorted(recorder.changes, key=lambda one: one.version):
            of_workload["-".join(change.name.split("-")[:2])].append(change)
        assert len(of_workload) == PER_SPACE
        for those in of_workload.values():
            absences = follow_absences(those, evicted, REPLICAS)
            worst = max(worst, *(one.ours for one in absences))
            others = max(others, *(one.others for one in absences))
            for one in absences:
                if one.evicted:
                    seen = evicted[one.evicted].timestamp() - VIEW_SECONDS
                    assert least_others(absences, seen, one.version) == 0, (one, those)
    print(f"pods of a workload that were out: at most {worst} by us, {others} by others (kubelets that are late)")
    assert worst == 1
    gone = {change.uid for recorder in recorders for change in recorder.changes if change.terminating}
    assert len(gone & evicted.keys()) == MINIMUM
    most = max(count_under_way(recorder.changes, initial, evicted, 1) for recorder in recorders)
    changes = [change for recorder in recorders for change in recorder.changes]
    print(f"at most {count_under_way(changes, initial, evicted, 2)} under way in the cluster, {most} in a namespace")


def count_under_way(changes: Sequence[PodChange], initial: frozenset[str], evicted: Collection[str], first: int) -> int:
    """Return how many moves were under way at most; fail where slow start, with a window of `first`, forbids it."""
    gone, arrived, most = set[str](), set[str](), 0
    for change in sorted(changes, key=lambda one: one.version):
        if change.uid in evicted and change.terminating and change.uid not in gone:
            gone.add(change.uid)
            most = max(most, len(gone) - len(arrived))
            assert len(gone) - len(arrived) <= first + len(arrived), (len(gone), len(arrived))
        elif change.uid not in initial and change.available:
            arrived.add(change.uid)
    return most
