"""Prevention at scale: `python -m benchmarks.prevention` prints what a large cluster with constant churn costs.

A model of 5,000 nodes in three zones and 150,000 pods in Deployments of 30, with hard constraints over zone and host
name. Twenty pods a second are lost and replaced where kube-scheduler would place them. Each minute is one cycle:
assessed and evaluated by the controller's own functions, its patches applied at `perMinute: 1500`.
"""

import argparse
import resource
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import ScaleDownPrevention, default_policy
from rebalancer.policy.prevention import Prevention
from rebalancer.prevention.plan import NOTHING_CARRIED, Carried, GroupResult, evaluate_groups
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = "abc"
PER_MINUTE = 1_500


def build(nodes: int, workloads: int, replicas: int, random: Random) -> Snapshot:
    """Return a cluster whose workloads are spread evenly over zones, each on nodes of its own choice."""
    blueprint = ClusterBuilder()
    each = nodes // len(ZONES)
    blueprint.zones(ZONES, each)
    for number in range(workloads):
        picked = {zone: random.sample(range(1, each + 1), -(-replicas // len(ZONES))) for zone in ZONES}
        on = {f"{ZONES[pod % 3]}-{picked[ZONES[pod % 3]][pod // 3]}": 1 for pod in range(replicas)}
        blueprint.deployment(f"web-{number}", on=on, spread={ZONE: 1, HOSTNAME: 1}, namespace=f"team-{number % 100}")
    return blueprint.snapshot()


class Churn:
    """Loses pods and places their replacements."""

    def __init__(self, snapshot: Snapshot, random: Random) -> None:
        self.snapshot = snapshot
        self._random = random
        self._pods = {pod.uid: pod for pod in snapshot.pods}
        self._of: defaultdict[str, set[str]] = defaultdict(set)
        for pod in snapshot.pods:
            assert pod.owner is not None
            self._of[pod.owner.uid].add(pod.uid)
        self._nodes = {zone: [node.name for node in snapshot.nodes if node.name.startswith(zone)] for zone in ZONES}
        self._serial = 0

    def replace_pods(self, number: int) -> None:
        """Lose so many pods of any workloads, and start as many."""
        for uid in self._random.sample(sorted(self._pods), number):
            self._replace(self._pods.pop(uid))

    def _replace(self, lost: Pod) -> None:
        assert lost.owner is not None
        siblings = self._of[lost.owner.uid]
        siblings.discard(lost.uid)
        held = [self._pods[uid].node or "" for uid in siblings]
        counts = {zone: sum(node.startswith(zone) for node in held) for zone in ZONES}
        zone = self._random.choice([zone for zone in ZONES if counts[zone] == min(counts.values())])
        node = self._random.choice(self._nodes[zone])
        while node in held:
            node = self._random.choice(self._nodes[zone])
        self._serial += 1
        uid = f"new-{self._serial}"
        self._pods[uid] = structs.replace(
            lost, uid=uid, name=f"{lost.name[:40]}-{self._serial}", node=node, own_deletion_cost=0
        )
        siblings.add(uid)

    def patch(self, uid: str, cost: int | None) -> None:
        """Write a cost."""
        self._pods[uid] = structs.replace(self._pods[uid], own_deletion_cost=cost or 0)

    def take(self, minute: int) -> Snapshot:
        """Return the cluster as it is."""
        taken_at = self.snapshot.taken_at + timedelta(minutes=minute)
        return replace(self.snapshot, pods=tuple(self._pods.values()), taken_at=taken_at)


def measure(churn: Churn, minutes: int, starts: int) -> Iterator[tuple[int, int, float, float, float, int]]:
    """Yield for each minute: pod starts, patches, seconds of assessing, evaluating and patching, workloads behind."""
    policy = default_policy().model_copy(
        update={
            "groups": (),
            "prevention": Prevention(scale_down=ScaleDownPrevention.STEER).model_copy(
                update={"per_minute": PER_MINUTE}
            ),
        }
    )
    carried = NOTHING_CARRIED
    for minute in range(minutes):
        if minute:
            churn.replace_pods(starts)
        snapshot = churn.take(minute)
        began = time.process_time()
        view = View(snapshot)
        assessment = assess(view, policy, NO_MEMORY)
        assessed = time.process_time()
        results: list[GroupResult] = list(
            evaluate_groups(view, assessment, policy, NO_MEMORY, snapshot.taken_at, carried)
        )
        evaluated = time.process_time()
        carried = Carried(unsettled={}, known={result.uid: result.known for result in results}, written={})
        sent = 0
        limit = PER_MINUTE if minute else len(snapshot.pods)
        for result in results:
            if sent + len(result.patches) <= limit:
                for patch in result.patches:
                    churn.patch(patch.uid, patch.cost)
                sent += len(result.patches)
        behind = sum(not result.is_best for result in results) - sum(bool(result.patches) for result in results)
        yield (
            starts if minute else 0,
            sent,
            assessed - began,
            evaluated - assessed,
            time.process_time() - evaluated,
            max(0, behind),
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prevention", description=__doc__)
    parser.add_argument("--minutes", type=int, default=6)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--workloads", type=int, default=5_000)
    parser.add_argument("--replicas", type=int, default=30)
    parser.add_argument("--starts", type=int, default=1_200, help="pod starts in a minute")
    options = parser.parse_args(arguments)
    random = Random(1)
    churn = Churn(build(options.nodes, options.workloads, options.replicas, random), random)
    pods = options.workloads * options.replicas
    print(f"{options.nodes} nodes, {pods} pods, {options.starts} pod starts a minute, perMinute {PER_MINUTE}")
    print("minute  starts  patches  per start  assess s  evaluate s")
    starts = patches = 0
    for minute, row in enumerate(measure(churn, options.minutes, options.starts)):
        began, sent, assessing, evaluating, _, _ = row
        ratio = f"{sent / began:.3f}" if began else "first"
        print(f"{minute:6}  {began:6}  {sent:7}  {ratio:>9}  {assessing:8.1f}  {evaluating:10.1f}", flush=True)
        if began:
            starts, patches = starts + began, patches + sent
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if starts:
        print(f"{patches} patches for {starts} pod starts: {patches / starts:.3f} each; at most {most:.0f} MiB")


if __name__ == "__main__":
    main()
