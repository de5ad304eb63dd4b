"""Scale-downs on a real control plane, each twice: of a workload whose order is kept, and of its twin.

Both have the same constraints and numbers, and the real scheduler places their pods. Whatever happens to one happens to
the other: steps of an autoscaler or one big step, a lost node or a rollout before it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.assessment.assess import assess
from rebalancer.engine import evaluate
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import State
from rebalancer.policy import Policy, load_policy
from rebalancer.prevention.groups import find_pod_groups
from rebalancer.prevention.order import find_order
from rebalancer.scheduling.view import View
from tests.cluster.controller import Controller, install, policy
from tests.cluster.prevention import scale_all, wait_ordered, wait_restricted
from tests.control_plane.api import Api, in_parallel, wait_until
from tests.control_plane.cleaning import Cleaner
from tests.control_plane.layout import deployment, lay_out, lose_nodes, nodes, return_nodes, spread, wait_settled
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane

STEERED, PLAIN = "steered", "plain"
ZONES: Final = {"a": 4, "b": 4, "c": 4}
LADDERS: Final[Sequence[tuple[int, tuple[int, ...]]]] = (
    (30, (20, 12, 6, 3)),
    (30, (3,)),
    (30, (6,)),
    (20, (12, 3)),
    (12, (9, 6, 2)),
    (9, (3,)),
    (24, (17, 11, 8, 5)),
)
"""Replicas, and the numbers that they are scaled down to."""

SPREADS: Final = ({ZONE: 1, HOSTNAME: 1}, {ZONE: 1}, {ZONE: 2, HOSTNAME: 1}, {ZONE: 1, HOSTNAME: 2})
LIMITS: Final = [
    {
        "name": "limited",
        "selector": {"matchLabels": {"limited": "yes"}},
        "limits": [
            {"name": "zone-half", "when": {"total": ">=3"}, "topologyKey": ZONE, "maxShare": "<=1/2"},
            {"name": "node-third", "when": {"total": ">=6"}, "topologyKey": HOSTNAME, "maxShare": "<1/3"},
        ],
    }
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A workload, in two namespaces, and what becomes of it."""

    number: int
    replicas: int
    ladder: Sequence[int]
    spread: Mapping[str, int]
    limited: bool

    @property
    def name(self) -> str:
        return f"web-{self.number}"


@dataclass(kw_only=True)
class Tally:
    """What became of the scale-downs of one kind."""

    scale_downs: int = 0
    violated: int = 0
    avoidable: int = 0
    """Of these, an order of the pods existed that leaves no violation."""
    evictions: int = 0
    """What it takes to repair them, proved."""
    largest: float = 0.0
    """The largest share of one zone, of at least three pods."""


@dataclass(kw_only=True)
class Result:
    """The tallies by what happened before the scale-downs, steered and plain."""

    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    patches: int = 0

    def of(self, before: str, namespace: str) -> Tally:
        return self.tallies.setdefault((before, namespace), Tally())


def draw_cases(seed: int, number: int) -> list[Case]:
    """Draw workloads; every ladder and every spread comes up."""
    random = Random(seed)
    cases = []
    for index in range(number):
        replicas, ladder = LADDERS[index % len(LADDERS)]
        if random.random() < 0.4:
            replicas = random.randint(6, 30)
            numbers = random.sample(range(2, replicas), random.randint(1, 3))
            ladder = tuple(sorted(numbers, reverse=True))
        limited = random.random() < 0.4
        spreads = {ZONE: 2} if limited and random.random() < 0.5 else random.choice(SPREADS)
        cases.append(Case(number=index, replicas=replicas, ladder=ladder, spread=spreads, limited=limited))
    return cases


def steering_policy() -> str:
    rules = {"scaleDown": "Steer", "perMinute": 6000, "namespaces": {"include": [STEERED]}}
    return policy("Observe", interval="1s", prevention=rules, groups=LIMITS)


def run_cases(plane: ControlPlane, folder: Path, cases: Sequence[Case], before: str, result: Result) -> None:
    """Lay out, let the controller order the pods, do what happens before, then scale down step by step."""
    install(plane, "base", "prevention")
    lay_out(plane, [*nodes(ZONES), *(part for case in cases for part in _twins(case, before))], timeout=180)
    wait_restricted(plane, STEERED)
    folder.mkdir(parents=True, exist_ok=True)
    with Controller(plane, folder, steering_policy()) as controller:
        wait_ordered(plane, len(cases), timeout=180)
        _happen(plane, before, cases)
        if before != "nothing":
            wait_ordered(plane, len(cases), timeout=180)
        for step in range(max(len(case.ladder) for case in cases)):
            due = {case: case.ladder[step] for case in cases if step < len(case.ladder)} if cases else {}
            possible = _find_possible(plane, due)
            scale_all(
                plane.api, {(space, case.name): number for case, number in due.items() for space in (STEERED, PLAIN)}
            )
            _evaluate(plane, due, possible, before, result)
        metrics = controller.metrics()
        result.patches += round(metrics['rebalancer_prevention_patches_total{result="patched"}'])
        assert metrics['rebalancer_prevention_patches_total{result="failed"}'] == 0


def _twins(case: Case, before: str) -> Iterator[Any]:
    """Yield both Deployments; with a rollout to come, the pods of each revision are spread for themselves."""
    labels = {"app": case.name}
    revision: dict[str, Any] = {"matchLabelKeys": ["pod-template-hash"]} if before == "a rollout" else {}
    constraints = [spread(key, labels=labels, max_skew=skew, **revision) for key, skew in case.spread.items()]
    for namespace in (STEERED, PLAIN):
        yield deployment(
            case.name,
            [],
            namespace=namespace,
            labels={**labels, "limited": "yes"} if case.limited else labels,
            replicas=case.replicas,
            topologySpreadConstraints=constraints,
        )


def _happen(plane: ControlPlane, before: str, cases: Sequence[Case]) -> None:
    """Let happen what comes before the scale-downs."""
    if before == "a node lost and back":
        lost = lose_nodes(plane, "b-1")
        time.sleep(3)  # pods are placed elsewhere as far as their constraints allow
        return_nodes(plane, lost)
        _wait_ready(plane.api, cases)
    if before == "a rollout":
        patch = {"spec": {"template": {"metadata": {"annotations": {"rollout": "1"}}}}}
        paths = [_path(space, case.name) for case in cases for space in (STEERED, PLAIN)]
        in_parallel(lambda path: plane.api.patch(path, patch), paths)
        wait_settled(plane, timeout=180)


def _wait_ready(api: Api, cases: Sequence[Case]) -> None:
    def ready() -> bool:
        return all(
            api.get(_path(space, case.name))["status"].get("readyReplicas") == case.replicas
            for case in cases
            for space in (STEERED, PLAIN)
        )

    wait_until(ready, what="the replacements", timeout=120, interval=0.5)


def _path(namespace: str, name: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"


def _view(plane: ControlPlane) -> tuple[View, Policy]:
    snapshot = read_once(connect(kubeconfig=str(plane.kubeconfig())), datetime.now(UTC))
    return View(snapshot), load_policy(steering_policy().encode(), source="policy.yaml")


def _find_possible(plane: ControlPlane, due: Mapping[Case, int]) -> set[tuple[str, str]]:
    """Return the workloads for which an order exists that leaves no violation at the number they are scaled to."""
    view, rules = _view(plane)
    assessment = assess(view, rules, NO_MEMORY)
    numbers = {case.name: number for case, number in due.items()}
    possible = {(space, case.name) for case in due for space in (STEERED, PLAIN)}
    for group in find_pod_groups(view, assessment, rules, NO_MEMORY):
        workload = group.member.reference
        number = numbers.get(workload.name, 0)
        if 0 < number < group.problem.size and find_order(group.problem).excess[number]:
            possible.discard((workload.namespace, workload.name))
    return possible


def _evaluate(
    plane: ControlPlane, due: Mapping[Case, int], possible: set[tuple[str, str]], before: str, result: Result
) -> None:
    view, rules = _view(plane)
    evaluation = evaluate(view.snapshot, rules)
    assessment, made = evaluation.assessment, evaluation.plan
    violated = {
        (workload.namespace, workload.name)
        for group in assessment.groups
        if group.violated
        for workload in group.spread.workloads
    }
    violated |= {
        (limit.namespace, part.member.reference.name)
        for limit in assessment.limits
        if limit.state is not State.SATISFIED
        for part in limit.parts
    }
    needed: dict[tuple[str, str], int] = {}
    for component in made.components:
        for workload in component.workloads:
            key = workload.namespace, workload.name
            needed[key] = max(needed.get(key, 0), component.lower_bound)
    zones = view.nodes.values(ZONE)
    for case, number in due.items():
        for space in (STEERED, PLAIN):
            key, tally = (space, case.name), result.of(before, space)
            tally.scale_downs += 1
            tally.violated += key in violated
            tally.avoidable += key in violated and key in possible
            tally.evictions += needed.get(key, 0)
            held = [
                zones[pod.node]
                for pod in view.snapshot.pods_in[space]
                if pod.labels.get("app") == case.name and pod.node
            ]
            if number >= 3 and held:
                tally.largest = max(tally.largest, max(map(held.count, set(held))) / len(held))


BATCHES: Final = (
    (5, "a rollout"),
    (2, "nothing"),
    (4, "a node lost and back"),
    (6, "a rollout"),
    (1, "nothing"),
    (3, "a node lost and back"),
)
CASES: Final = 16


def measure(plane: ControlPlane, folder: Path) -> Result:
    """Run all batches, each on a clean cluster."""
    result = Result()
    cleaner = Cleaner(plane.api)
    for seed, before in BATCHES:
        cleaner.clean()
        run_cases(plane, folder / str(seed), draw_cases(seed, CASES), before, result)
        print(seed, before, result, flush=True)
    return result
