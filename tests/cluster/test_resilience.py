"""The bounds of a lost zone hold on real servers: it is silenced, then deleted, each until nothing moves any more.

The clusters are drawn, three workloads at most, and lie side by side. The bounds are of what the API server says.
"""

import json
import shlex
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Final

import pytest

from benchmarks.tables import table
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.resilience.changed import Change
from rebalancer.resilience.rows import Remaining, Verdict, find_resilience
from rebalancer.scheduling.view import View
from tests.cluster.controller import rebalancer
from tests.cluster.lost_zones import Laid, LostZones, Ready
from tests.control_plane.layout import deployment, lay_out, nodes, spread, wait_settled
from tests.control_plane.plane import ControlPlane
from tests.resilience.changing import carry_out, cheaper, find
from tests.resilience.drawn import draw_loss

LARGEST: Final = "requests against allocatable less the largest node"
FREE: Final = "free capacity of the rest"
OURS: Final = "`rebalancer resilience`"
FINE, SHORT, UNDECIDED = "fine", "short", "order"
HEADS: Final = (
    "phase",
    "answer of",
    "fine: whole",
    "fine: **not whole**",
    "short: **whole**",
    "short: not whole",
    "order: whole",
    "order: not whole",
)


def draw(seeds: Sequence[int]) -> list[Laid]:
    """Return drawn clusters with a zone that is lost."""
    return [Laid.draw(f"lost{seed}", draw_loss(seed).before.snapshot, seed) for seed in seeds]


def rows_of(zones: LostZones, laid: Laid, phase: Phase) -> dict[str, Remaining]:
    """Return what is said of the loss of a cluster's zone, by workload; those that are whole have no row."""
    losses = find_resilience(zones.views[laid.name], [ZONE], [phase], lambda _: True)
    (loss,) = [one for one in losses if one.value == f"{laid.name}-{laid.zone}"]
    return {row.workload.name.removeprefix(f"{laid.name}-"): row for row in loss.rows}


def find_faults(zones: LostZones, phase: Phase, ready: Ready) -> Iterator[str]:
    """Yield the workloads of which fewer pods are Ready than guaranteed, or more than possible."""
    for laid in zones.clusters:
        rows = rows_of(zones, laid, phase)
        for app, wanted in laid.wanted.items():
            least = rows[app].guaranteed if app in rows else wanted
            most = rows[app].possible if app in rows else wanted
            if not least <= ready[laid.name][app] <= most:
                yield f"{laid.name}/{app} {phase}: {ready[laid.name][app]} are Ready, not {least} to {most}"


@pytest.mark.invariant("resilience")
def test_bounds_hold_when_a_zone_is_silent_and_when_it_is_deleted(cluster: ControlPlane) -> None:
    """Ten drawn clusters, one zone of each."""
    zones = LostZones(cluster, draw(range(10)))
    for phase in Phase:
        ready = zones.lose(phase)
        print(phase, {name: dict(counts) for name, counts in ready.items()})
        assert not [*find_faults(zones, phase, ready)]


def is_fine_by_the_largest_node(view: View) -> bool:
    """Return whether all requests are within what can be allocated without the largest node: KubeCPUOvercommit.

    And KubeMemoryOvercommit, of kube-prometheus.
    """
    nodes, pods = view.snapshot.nodes, view.snapshot.pods
    for resource in ("cpu", "memory"):
        have = [getattr(one.allocatable, resource) for one in nodes]
        if sum(getattr(pod.requests, resource) for pod in pods) > sum(have) - max(have):
            return False
    return True


def is_fine_by_what_is_free(view: View, lost: frozenset[str]) -> bool:
    """Return whether what the lost pods and those that wait request is free on the other nodes, all together."""
    moving = [pod for pod in view.snapshot.pods if pod.node is None or pod.node in lost]
    rest = [one for one in view.snapshot.nodes if one.name not in lost]
    return all(
        sum(getattr(pod.requests, resource) for pod in moving)
        <= sum(getattr(one.allocatable, resource) - getattr(view.used(one.name), resource) for one in rest)
        for resource in ("cpu", "memory")
    )


def answer(zones: LostZones, phase: Phase) -> Iterator[tuple[str, str, str]]:
    """Yield what each way to answer says of each cluster: its name, the way, and fine, short or undecided."""
    for laid in zones.clusters:
        view, verdicts = zones.views[laid.name], {row.verdict for row in rows_of(zones, laid, phase).values()}
        yield laid.name, LARGEST, FINE if is_fine_by_the_largest_node(view) else SHORT
        yield laid.name, FREE, FINE if is_fine_by_what_is_free(view, frozenset(laid.nodes)) else SHORT
        ours = SHORT if Verdict.NO in verdicts else UNDECIDED if Verdict.ORDER in verdicts else FINE
        yield laid.name, OURS, ours


def count_answers(zones: LostZones, phase: Phase, ready: Ready) -> Counter[tuple[str, str, bool]]:
    """Count the answers, by the way, what it says, and whether all workloads were whole."""
    whole = {
        laid.name: all(ready[laid.name][app] >= wanted for app, wanted in laid.wanted.items())
        for laid in zones.clusters
    }
    return Counter((way, said, whole[name]) for name, way, said in answer(zones, phase))


@pytest.mark.parametrize("number", [0, 1])
def test_a_command_that_is_printed_makes_a_workload_whole(cluster: ControlPlane, number: int) -> None:
    """12 pods over three zones, maxSkew 1: nodeTaintsPolicy: Honor, or maxSkew 6, and a rollout."""
    constraint = spread(labels={"app": "web"})
    pods = {f"{zone}-0": 4 for zone in "abc"}
    lay_out(cluster, [*nodes(dict.fromkeys("abc", 1)), deployment("web", pods, topologySpreadConstraints=[constraint])])
    kubeconfig = ("--kubeconfig", str(cluster.kubeconfig()))
    asked = ("resilience", "web", "-n", "default", "-o", "json", *kubeconfig)
    before = json.loads(rebalancer(*asked).stdout)
    words = shlex.split(before["changes"][0]["changes"][number]["command"])
    words[:1] = [str(cluster.programs["kubectl"]), *kubeconfig]
    subprocess.run(words, check=True, capture_output=True)
    wait_settled(cluster)
    after = json.loads(rebalancer(*asked).stdout)
    assert {row["verdict"] for loss in after["domains"] for row in loss["workloads"]} == {"yes"}
    assert after["changes"] == []


@pytest.mark.thorough
def test_sixty_clusters_and_what_others_say_of_them(cluster: ControlPlane) -> None:
    """Prints the table of docs/comparison.md; ours is never wrong."""
    zones = LostZones(cluster, draw(range(100, 160)))
    faults, rows = list[str](), list[list[str]]()
    for phase in Phase:
        ready = zones.lose(phase)
        faults += find_faults(zones, phase, ready)
        counts = count_answers(zones, phase, ready)
        for way in (LARGEST, FREE, OURS):
            shown = [counts[way, said, whole] for said in (FINE, SHORT, UNDECIDED) for whole in (True, False)]
            rows.append([str(phase), way, *map(str, shown)])
    print("\n" + table(HEADS, rows))
    assert not faults, "\n".join(faults)
    assert all(row[3:5] == ["0", "0"] for row in rows if row[1] == OURS)


@pytest.mark.thorough
def test_bounds_hold_where_a_zone_is_deleted_without_having_been_silent(cluster: ControlPlane) -> None:
    """Sixty other clusters."""
    zones = LostZones(cluster, draw(range(200, 260)))
    faults = [*find_faults(zones, Phase.GONE, zones.lose(Phase.GONE))]
    assert not faults, "\n".join(faults)


def refutes(view: View, workload: Reference, zone: str, verdicts: Collection[Verdict]) -> bool:
    """Return whether a workload has one of these verdicts after the loss of a zone, silent or gone."""
    return any(
        row.workload == workload and row.verdict in verdicts
        for loss in find_resilience(view, [ZONE], Phase, lambda one: one == workload)
        for row in loss.rows
        if loss.value == zone
    )


def draw_changes(number: int) -> Iterator[tuple[Reference, Laid, Laid | None]]:
    """Yield a workload at risk, its cluster with a change that was named, and the same with a cheaper one.

    None where no bound says that the cheaper one cannot do. Of the changes of a cluster the one is made whose kind was
    made least.
    """
    made = Counter[object]()
    for seed in count(1_000):
        snapshot = draw_loss(seed).before.snapshot
        lacks = sum(owner.replicas for owner in snapshot.workloads if owner.owner is None) > len(snapshot.pods)
        pairs = [] if lacks else [(one.workload, change) for one in find(snapshot) for change in one.changes]
        if not pairs:
            continue
        workload, change = min(pairs, key=lambda pair: made[kind_of(pair[1])])
        made[kind_of(change)] += 1
        zones = View(snapshot).nodes.groups(ZONE)
        zone = next(one for one in zones if refutes(View(snapshot), workload, one, [Verdict.NO, Verdict.ORDER]))
        less = [carry_out(snapshot, workload, one) for one in cheaper(snapshot, workload, change)]
        refuted = next((one for one in less if refutes(View(one), workload, zone, [Verdict.NO])), None)
        yield (
            workload,
            Laid(f"changed{seed}", carry_out(snapshot, workload, change), zone),
            None if refuted is None else Laid(f"cheaper{seed}", refuted, zone),
        )
        if made.total() == number:
            print(f"\nchanges: {dict(made)}")
            return


def kind_of(change: Change) -> tuple[str, ...]:
    """Return which kinds of changes it has."""
    honors = any(one.honor for one in change.constraints)
    skews = any(one.max_skew is not None for one in change.constraints)
    adds = bool(change.nodes)
    return tuple(name for name, has in (("Honor", honors), ("maxSkew", skews), ("nodes", adds)) if has)


@pytest.mark.thorough
def test_twenty_changes_hold_and_cheaper_ones_do_not(cluster: ControlPlane) -> None:
    """The workload comes back whole in both phases; with the cheaper one, where no order could, it does not."""
    drawn = [*draw_changes(20)]
    zones = LostZones(cluster, [laid for _, *both in drawn for laid in both if laid is not None])
    faults, short = list[str](), set[str]()
    for phase in Phase:
        ready = zones.lose(phase)
        faults += find_faults(zones, phase, ready)
        for workload, changed, less in drawn:
            app = workload.name
            if ready[changed.name][app] < changed.wanted[app]:
                faults.append(f"{changed.name}/{app} {phase}: {ready[changed.name][app]} of {changed.wanted[app]}")
            if less is not None and ready[less.name][app] < less.wanted[app]:
                short.add(less.name)
    expected = {less.name for _, _, less in drawn if less is not None}
    print(f"{len(drawn)} changes hold, of {len(expected)} the cheaper one was tried")
    assert not faults, "\n".join(faults)
    assert short == expected
