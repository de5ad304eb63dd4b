"""How long lint takes for many manifests. Run: `python -m pytest benchmarks/test_lint.py -s`.

2,000 Deployments in one file, held against a cluster of 300 nodes with 6,000 pods: new ones, or those of the cluster,
of which every tenth rolls out. Compared with what `rebalancer report` evaluates of the same cluster in the same
process.
"""

import random
from collections import Counter
from dataclasses import replace

from msgspec import structs

from benchmarks.test_resilience import report
from benchmarks.timing import seconds
from rebalancer.adapters.files.manifests import read_manifests
from rebalancer.cli.main import collect_rarely
from rebalancer.lint.check import lint
from rebalancer.lint.ground import Ground
from rebalancer.lint.manifest import Manifests
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload
from rebalancer.simulator import ClusterBuilder
from tests.lint.build import ZONE, affinity, deployment, spread, term, text

_MANIFESTS = 2_000
_MOST = 5.0
"""Times of a report."""


def cluster() -> Snapshot:
    """Three zones of 100 nodes, and 1,000 Deployments of six pods."""
    blueprint, draw = ClusterBuilder(), random.Random(1)
    blueprint.zones("abc", 100)
    nodes = [f"{zone}-{number}" for zone in "abc" for number in range(1, 101)]
    for number in range(1_000):
        on = Counter(draw.choices(nodes, k=6))
        blueprint.deployment(f"app-{number}", on=on, spread={ZONE: 1}, namespace=f"team-{number % 50}")
    return blueprint.snapshot()


def written() -> str:
    """Return Deployments of one to six pods, half of them spread, a third apart."""
    draw = random.Random(2)
    made = []
    for number in range(_MANIFESTS):
        own = {"matchLabels": {"app": f"new-{number}"}}
        one = deployment(
            draw.randint(1, 6),
            labels=own["matchLabels"],
            selector=own,
            containers=[
                {"name": "web", "image": "web", "resources": {"requests": {"cpu": draw.choice(["100m", "500m"])}}}
            ],
            topologySpreadConstraints=[spread(labelSelector=own)] if number % 2 else [],
            affinity=affinity(apart=[term(labelSelector=own)] if number % 3 else []),
        )
        made.append(one | {"metadata": {"name": f"new-{number}", "namespace": f"team-{number % 50}"}})
    return text(*made)


def running() -> Snapshot:
    """Three zones of 100 nodes, and 2,000 Deployments of three pods."""
    blueprint, draw = ClusterBuilder(), random.Random(3)
    blueprint.zones("abc", 100)
    nodes = [f"{zone}-{number}" for zone in "abc" for number in range(1, 101)]
    for number in range(_MANIFESTS):
        on = Counter(draw.choices(nodes, k=3))
        blueprint.deployment(f"app-{number}", on=on, spread={ZONE: 1}, namespace=f"team-{number % 50}")
    snapshot = blueprint.snapshot()
    return replace(snapshot, workloads=tuple(map(with_image, snapshot.workloads)))


def with_image(workload: Workload) -> Workload:
    """Return a workload whose template has the image of the manifests: another one is a rollout, too."""
    template = workload.template
    assert template is not None
    spec = structs.replace(template.spec, images=("web",))
    return structs.replace(workload, template=structs.replace(template, spec=spec))


def rolled_out() -> str:
    """Return the Deployments of `running`, every tenth with another request."""
    made = []
    for number in range(_MANIFESTS):
        own = {"matchLabels": {"app": f"app-{number}"}}
        cpu = "100m" if number % 10 else "110m"
        one = deployment(
            3,
            labels=own["matchLabels"],
            selector=own,
            containers=[{"name": "web", "image": "web", "resources": {"requests": {"cpu": cpu, "memory": "100M"}}}],
            topologySpreadConstraints=[spread(labelSelector=own)],
        )
        made.append(one | {"metadata": {"name": f"app-{number}", "namespace": f"team-{number % 50}"}})
    return text(*made)


def lint_all(manifests: str, snapshot: Snapshot | None) -> int:
    """Read the manifests and lint them, from nothing; return the number of findings."""
    read = Manifests.of(read_manifests(manifests, "all.yaml"))
    return len(lint(read, Ground(replace(snapshot), read) if snapshot is not None else None))


def test_two_thousand_manifests_take_a_few_reports() -> None:
    """In one call, reading included."""
    collect_rarely()
    snapshot, manifests = cluster(), written()
    usual = seconds(lambda: report(snapshot))
    alone = seconds(lambda: lint_all(manifests, None)) / usual
    there = seconds(lambda: lint_all(manifests, snapshot)) / usual
    print(f"report {usual:.2f} s; lint of the manifests alone {alone:.1f} times that, in the cluster {there:.1f} times")
    assert there <= _MOST


def test_manifests_of_which_a_tenth_rolls_out_take_a_few_reports() -> None:
    """Each rollout is searched step by step."""
    collect_rarely()
    snapshot, manifests = running(), rolled_out()
    read = Manifests.of(read_manifests(manifests, "all.yaml"))
    assert len(Ground(snapshot, read).changing) == _MANIFESTS / 10
    usual = seconds(lambda: report(snapshot))
    there = seconds(lambda: lint_all(manifests, snapshot)) / usual
    print(f"report {usual:.2f} s; lint of manifests of which a tenth rolls out {there:.1f} times that")
    assert there <= _MOST
