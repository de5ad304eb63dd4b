"""The verification table of the design that the limits come from, replayed step by step.

Redis clusters of StatefulSets of two, in one, two and three zones: created, scaled out and in, upgraded, rebuilt. The
real controllers and the real scheduler do it; after each step the report's limits equal a count made here from the
API's own objects, in whole numbers.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster.controller import ACCOUNT, install, rebalancer
from tests.control_plane.accounts import ensure_namespace
from tests.control_plane.api import Api, in_parallel, wait_until
from tests.control_plane.layout import Workload, lay_out, node, spread, stateful_set
from tests.control_plane.manifests import HOSTNAME
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.settling import unsettled

POLICY = Path(__file__).parents[2] / "config" / "examples" / "netease.yaml"
AZ = "failure-domain.beta.kubernetes.io/zone"
CLUSTER = "cloud.netease.com/cluster-name"
SHARD = "cloud.netease.com.ncr/ncrnode"
EVERYONE = {"cloud.netease.com/app": "ncr", "cloud.netease.com.ncr/type": "endpoints", CLUSTER: "redis"}
NAMESPACE = "cache"
SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def bed(zones: str) -> list[Manifest]:
    """Return six nodes over the zones."""
    return [node(f"{zone}-{n}", labels={AZ: zone}) for zone in zones for n in range(6 // len(zones))]


def shard(number: int, shards: int, zones: str, cpu: str) -> Workload:
    """Return a shard with the constraints that the design works out for so many."""
    pods = 2 * shards
    labels = {**EVERYONE, SHARD: f"redis-{number}"}
    on_node = (pods - 1) // 3
    if len(zones) > 1 and shards == 3:
        on_node = 2  # relaxed, or three shards can deadlock
    constraints = [
        spread(HOSTNAME, labels=EVERYONE, max_skew=max(1, on_node)),
        spread(HOSTNAME, labels=EVERYONE, soft=True),
    ]
    if len(zones) > 1:
        constraints.append(spread(AZ, labels=EVERYONE, max_skew=max(1, (pods - 1) // 2)))
        constraints.append(spread(AZ, labels=EVERYONE, soft=True))
    apart = {"topologyKey": AZ if len(zones) > 1 else HOSTNAME, "labelSelector": {"matchLabels": labels}}
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": AZ, "operator": "In", "values": list(zones)}]}]}
    return stateful_set(
        f"redis-{number}",
        [],
        namespace=NAMESPACE,
        labels=labels,
        replicas=2,
        cpu=cpu,
        workload={"updateStrategy": {"type": "OnDelete"}},
        topologySpreadConstraints=constraints,
        affinity={
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
        },
    )


class Cluster:
    """A Redis cluster, changed as its operator would: running pods keep what they carry until they are made anew."""

    def __init__(self, plane: ControlPlane, zones: str) -> None:
        self._api = plane.api
        self._zones = zones
        self._cpu = "100m"
        self.shards = 0

    def scale(self, shards: int) -> None:
        """Have so many shards; all get the constraints for the new number."""
        for number in range(shards, self.shards):
            self._api.delete(f"{SETS}/redis-{number}")
        self._api.apply(self._manifest(number, shards) for number in range(shards))
        self.shards = shards
        self._settle()

    def upgrade(self) -> None:
        """Allow the pods more nodes: replicas first, then the primaries."""
        self._cpu = "200m"
        self._api.apply(self._manifest(number, self.shards) for number in range(self.shards))
        for ordinal in (1, 0):
            self._remove(f"redis-{number}-{ordinal}" for number in range(self.shards))

    def rebuild(self) -> None:
        """Make both pods of a shard anew, one shard after the other."""
        for number in range(0, self.shards, 2):
            self._remove([f"redis-{number}-0", f"redis-{number}-1"])

    def _manifest(self, number: int, shards: int) -> Manifest:
        return shard(number, shards, self._zones, self._cpu).owners[0]

    def _remove(self, names: Any) -> None:
        in_parallel(lambda name: self._api.delete(f"{PODS}/{name}"), list(names))
        self._settle()

    def _settle(self) -> None:
        wait_until(lambda: not unsettled(self._api, unschedulable=None), what="the cluster to settle", timeout=60)


class Row(NamedTuple):
    """The state of one limit: counts of the domains that have pods, and whether it holds."""

    counts: Mapping[str, int]
    holds: bool


def expected(api: Api, zones: str) -> dict[tuple[str, str], Row]:
    """Count from the API's own objects what R1 to R8 say, by limit and the shard or zone that it is about."""
    zone_of = {node["metadata"]["name"]: node["metadata"]["labels"][AZ] for node in api.list("/api/v1/nodes")}
    placed = [
        (pod["metadata"]["labels"][SHARD], pod["spec"]["nodeName"])
        for pod in api.list(PODS)
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    ]
    wanted = sum(owner["spec"]["replicas"] for owner in api.list(SETS))
    nodes = Counter(name for _, name in placed)
    in_zones = Counter(zone_of[name] for _, name in placed)
    per_zone = [in_zones[zone] for zone in zones]
    three = wanted == 6
    rows: dict[tuple[str, str], Row] = {}

    def share(limit: str, counts: Counter[str], part: int, *, strict: bool) -> None:
        most = max(counts.values(), default=0)
        rows[limit, ""] = Row(counts, most * part < wanted if strict else most * part <= wanted)

    def apart(limit: str, domain: Mapping[str, str]) -> None:
        for name in {owner for owner, _ in placed}:
            counts = Counter(domain[place] for owner, place in placed if owner == name)
            rows[limit, name] = Row(counts, max(counts.values()) <= 1)

    if len(zones) == 1:
        share("R2-single-az", nodes, 3, strict=True)
        apart("R1", {name: name for name in zone_of})
        return rows
    share("R2-three-shards" if three else "R2", nodes, 3, strict=not three)
    apart("R3-R6", zone_of)
    if len(zones) == 2:
        rows["R4", ""] = Row(in_zones, max(per_zone) - min(per_zone) <= 1)
        for zone in zones:
            inside = {name: nodes[name] for name, place in zone_of.items() if place == zone}
            rows["R5", zone] = Row(inside, max(inside.values()) - min(inside.values()) <= 1)
    else:
        share("R7-three-shards" if three else "R7", in_zones, 2, strict=not three)
        rows["R8", ""] = Row(in_zones, max(per_zone) - min(per_zone) <= 2)
        rows["every-az", ""] = Row(in_zones, min(per_zone) >= 1)
    return rows


def reported(plane: ControlPlane) -> dict[tuple[str, str], Row]:
    """Return the same as `rebalancer report` says it."""
    done = rebalancer("report", "--kubeconfig", str(plane.kubeconfig()), "--policy", str(POLICY), "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = {}
    for row in json.loads(done.stdout)["limits"]:
        key = row["key"]
        assert (row["group"], row["namespace"], key.pop(CLUSTER)) == ("redis", NAMESPACE, "redis")
        assert row["state"] in {"Satisfied", "Violated", "Unfixable", "Infeasible"}
        rows[row["limit"], "".join(key.values())] = Row(row["counts"], row["state"] == "Satisfied")
    return rows


def without_empty(rows: Mapping[tuple[str, str], Row]) -> dict[tuple[str, str], Row]:
    return {
        name: Row({domain: count for domain, count in row.counts.items() if count}, row.holds)
        for name, row in rows.items()
    }


def steps(redis: Cluster, zones: str, shards: int) -> Iterator[str]:
    """Carry out a row of the table; after each step its name is yielded."""
    redis.scale(shards)
    yield "create"
    redis.scale(5 if shards == 3 else 10)
    yield "out"
    if shards == 6:
        redis.scale(5)
        yield "in"
    if len(zones) != 2:  # the design does not support it there
        redis.upgrade()
        yield "vertical upgrade"
    redis.rebuild()
    yield "rebuild"


WHOLE = [
    pytest.param(zones, shards, marks=[] if (zones, shards) == ("abc", 3) else [pytest.mark.thorough])
    for zones in ("a", "ab", "abc")
    for shards in (3, 6)
]


@pytest.mark.invariant("exact-shares")
@pytest.mark.parametrize(("zones", "shards"), WHOLE)
def test_limits_equal_an_independent_count_after_every_step(
    cluster: ControlPlane, tmp_path: Path, zones: str, shards: int
) -> None:
    """Every rule, every shard, every zone: the same verdict; what is broken and can be repaired is, or says why not."""
    lay_out(cluster, bed(zones))
    ensure_namespace(cluster.api, NAMESPACE)
    redis = Cluster(cluster, zones)
    for step in steps(redis, zones, shards):
        wanted = expected(cluster.api, zones)
        assert len(wanted) >= redis.shards + 1
        report = reported(cluster)
        print(step, sorted(name for name, row in report.items() if not row.holds))
        assert without_empty(report) == without_empty(wanted), step
        repaired(cluster, tmp_path)
        after = expected(cluster.api, zones)
        left = {limit for (limit, _), row in after.items() if not row.holds and limit in ACTED_ON}
        assert left <= explained(cluster, tmp_path), (step, left)


ACTED_ON = frozenset({"R2-single-az", "R2", "R2-three-shards", "R4", "R7", "R7-three-shards"})


def policy_file(folder: Path) -> Path:
    """Write the design's policy down, to be acted on at once."""
    text = POLICY.read_text()
    text = text.replace("settle: 2m", "settle: 0s")
    head = "mode: Evict\neligibility: {minAge: 0s}\nnodes: {settle: 0s}\nspread: {for: 0s}\n"
    lines = [line for line in text.splitlines() if not line.startswith("mode:")]
    path = folder / "policy.yaml"
    path.write_text("\n".join(lines) + "\n" + head)
    return path


def repaired(plane: ControlPlane, folder: Path) -> None:
    """Let the controller do what it can; nothing is left without a node."""
    install(plane, "base", "evict")
    done = rebalancer(
        *("run", "--once", "--kubeconfig", str(plane.kubeconfig(ACCOUNT)), "--policy", str(policy_file(folder))),
        *("--namespace", "rebalancer-system", "--metrics-address", "127.0.0.1:0", "--page-address", "127.0.0.1:0"),
    )
    assert done.returncode == 0, done.stderr
    assert all(pod["spec"].get("nodeName") for pod in plane.api.list(PODS))


def explained(plane: ControlPlane, folder: Path) -> set[str]:
    """Return the limits of which the plan says why they are not repaired."""
    arguments = ("--kubeconfig", str(plane.kubeconfig()), "--policy", str(policy_file(folder)), "-o", "json")
    done = rebalancer("plan", *arguments)
    assert done.returncode == 0, done.stderr
    groups = json.loads(done.stdout)["groups"]
    return {limit["limit"] for group in groups if group["reason"] for limit in group["limits"]}
