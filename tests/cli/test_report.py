"""`rebalancer report` and `plan` over files: exit codes, what is counted, and what an empty file comes to."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.documents.document import document_schema
from rebalancer.documents.plan import PlanDocument
from rebalancer.documents.report import ReportDocument, report_document
from tests.build import a_cluster
from tests.cli.files import placed, ready_nodes, replica_set, write_list, write_policy
from tests.cli.test_explain import LATER, owned
from tests.control_plane.layout import deployment
from tests.control_plane.manifests import HOSTNAME, ZONE, spread
from tests.control_plane.resources import Manifest
from tests.controller.cycles import cycle_of
from tests.known_states import build as known
from tests.known_states import test_sizes as sizes
from tests.planning import build as planning

EMPTY = {"kind": "List", "apiVersion": "v1", "items": []}
POLICY = """
groups:
- name: demo
  selector: {}
  limits:
  - {name: half, topologyKey: topology.kubernetes.io/zone, maxShare: "<=1/2", action: ACTION}
"""

LARGE = 600
"""Groups of a plan that two processes write."""

NONE = "All other workloads: none."
ONLY_ALERTS = (
    "1 workload violates only constraints or limits that Rebalancer does not repair by eviction; see rebalancer report."
)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Return a file: a Deployment without constraints, four of its six in one zone, none of which may be evicted."""
    return standing(tmp_path, {"a-0": 4, "b-0": 2})


def standing(folder: Path, on: dict[str, int]) -> str:
    web = deployment("web", on, namespace="demo")
    items: list[Manifest] = [*ready_nodes({"a": 1, "b": 1}), *owned(web.pods, web.owners)]
    for item in items:
        if item["kind"] == "Pod":
            item["metadata"]["annotations"] = {"rebalancer.dev/exclude": "true"}
    return write_list(folder / "cluster.yaml", items)


def policy(folder: Path, action: str) -> str:
    return write_policy(folder, POLICY.replace("ACTION", action))


@pytest.mark.parametrize(
    ("action", "state", "code"),
    [
        ("Evict", "unfixable", Exit.SOMETHING),
        ("Evict", "violated", Exit.FINE),
        ("Evict", "infeasible", Exit.FINE),
        ("Alert", "unfixable", Exit.FINE),
        ("Alert", "violated", Exit.SOMETHING),
    ],
)
def test_fail_on_goes_by_what_planning_knows_of_a_limit(
    action: str, state: str, code: Exit, cluster: str, tmp_path: Path
) -> None:
    """A limit of which no pod may be evicted is Unfixable; one that only alerts is Violated, whatever is allowed."""
    flags = ["--snapshot", cluster, "--policy", policy(tmp_path, action), *LATER]
    assert entry.main(["report", *flags, "--fail-on", state]) == code


def conflict(folder: Path, waiting: str | None) -> str:
    """Return a file with the documentation's conflict: the zone admits b-0, the host name a-1; none is broken."""
    labels = {"app": "x"}
    rules = [spread(key, labels=labels) for key in (ZONE, HOSTNAME)]
    places = ["a-0", "a-0", "a-1", "b-0", "b-0", waiting]
    pods = [
        placed(f"x-{number}", on, namespace="demo", labels=labels, topologySpreadConstraints=rules)
        for number, on in enumerate(places)
    ]
    return write_list(folder / "conflict.yaml", [*ready_nodes({"a": 2, "b": 1}), *pods])


@pytest.mark.parametrize(
    ("waiting", "state", "code"),
    [
        (None, "violated", Exit.SOMETHING),
        (None, "unfixable", Exit.FINE),
        (None, "infeasible", Exit.FINE),
        ("a-1", "violated", Exit.FINE),
    ],
)
def test_fail_on_violated_sees_a_deadlock(
    waiting: str | None, state: str, code: Exit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod that its own rules keep from every node breaks no constraint, and its workload is short of it."""
    assert entry.main(["report", "--snapshot", conflict(tmp_path, waiting), "--fail-on", state]) == code
    shown = capsys.readouterr().out
    assert ("PlacementDeadlock" in shown) is (waiting is None)
    assert "Violated" not in shown


@pytest.mark.parametrize(("state", "code"), [("violated", Exit.SOMETHING), ("infeasible", Exit.FINE)])
def test_fail_on_sees_required_anti_affinity(state: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """So does `-o name`, which names the workload that declares it."""
    command = ["report", "--snapshot", "docs/examples/anti-affinity.yaml"]
    assert entry.main([*command, "--fail-on", state]) == code
    capsys.readouterr()
    assert entry.main([*command, "-o", "name"]) == Exit.FINE
    assert capsys.readouterr().out == "shop/deployment/batch\n"


def test_fail_on_says_when_there_is_nothing_to_go_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped namespace would leave a pipeline green without a word."""
    file = tmp_path / "empty.json"
    file.write_text(json.dumps(EMPTY))
    assert entry.main(["report", "--snapshot", str(file), "--fail-on", "violated"]) == Exit.SOMETHING
    assert "warning: --fail-on has nothing to go by" in (shown := capsys.readouterr().err)
    assert "warning: --fail-on: no Node, Pod was read" in shown
    assert entry.main(["report", "--snapshot", str(file)]) == Exit.FINE
    assert "--fail-on" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("action", "more", "reported"),
    [
        ("Evict", [], f"{NONE}\nSnapshot of "),
        ("Alert", [], f"{ONLY_ALERTS}\n"),
        ("Alert", ["-n", "other"], f"{NONE}\nSnapshot of "),
    ],
)
def test_what_breaks_a_limit_is_not_within_all_limits(
    action: str, more: list[str], reported: str, cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is it hidden where nothing is evicted for it; and what was not chosen is not counted."""
    flags = ["--snapshot", cluster, "--policy", policy(tmp_path, action), *LATER, *more]
    assert entry.main(["plan", *flags]) == Exit.FINE
    assert reported in capsys.readouterr().out


def test_what_holds_is_counted_unless_a_soft_constraint_does_not(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within a looser limit, and the scheduler's default of three pods of difference between nodes; not beyond it."""
    loose = write_policy(tmp_path, POLICY.replace("ACTION", "Alert").replace("<=1/2", "<=5/6"))
    flags = ["--policy", loose, *LATER]
    assert entry.main(["plan", "--snapshot", cluster, *flags]) == Exit.FINE
    assert "\nNothing to repair.\n\n1 workload satisfies all constraints and limits." in capsys.readouterr().out
    assert entry.main(["plan", "--snapshot", standing(tmp_path, {"a-0": 5, "b-0": 1}), *flags]) == Exit.FINE
    assert f"\n{ONLY_ALERTS}\n" in capsys.readouterr().out


def test_an_empty_file_says_that_it_holds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no time to show, and none is made up."""
    path = write_list(tmp_path / "empty.yaml", [])
    for verb, document in (("report", ReportDocument), ("plan", PlanDocument)):
        assert entry.main([verb, "--snapshot", path]) == Exit.FINE
        shown = capsys.readouterr()
        assert f"warning: {path} contains no objects of a supported kind: there is nothing to evaluate\n" in shown.err
        assert "no time in it" not in shown.err
        assert "1971" not in shown.out
        assert entry.main([verb, "--snapshot", path, "-o", "json"]) == Exit.FINE
        report = json.loads(capsys.readouterr().out)
        assert (report["generatedAt"], report.get("expiresAt")) == (None, None)
        jsonschema.validate(report, document_schema(document))


def test_a_large_plan_is_the_same_whether_one_process_writes_it_or_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard output and in a file, with one processor and with all."""
    items: list[Manifest] = []
    for name in (f"web-{number:04}" for number in range(LARGE)):
        rules = [spread(labels={"app": name})]
        on = ["a-0"] * 3
        items += replica_set(name, on, namespace="demo", labels={"app": name}, topologySpreadConstraints=rules)
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({**EMPTY, "items": [*ready_nodes({"a": 1, "b": 1}), *items]}), encoding="utf-8")
    texts, processors = [], os.sched_getaffinity(0)
    for allowed in (processors, {min(processors)}):
        file = tmp_path / "plan.json"
        os.sched_setaffinity(0, allowed)
        try:
            code = entry.main(["plan", "--snapshot", str(cluster), "-o", "json", "--out", str(file), *LATER])
        finally:
            os.sched_setaffinity(0, processors)
        assert code == Exit.FINE
        texts += [capsys.readouterr().out, file.read_text(encoding="utf-8")]
    assert set(texts) == {texts[0]}
    document = json.loads(texts[0])
    assert len(document["groups"]) == document["totals"]["evictions"] == LARGE
    jsonschema.validate(document, document_schema(PlanDocument))


EXAMPLE = "docs/examples/zone-returned.json"


class TestFiles:
    """`--snapshot` is given repeatedly, or names a folder of `kubectl cluster-info dump`."""

    def test_files_are_joined(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        whole = json.loads(Path(EXAMPLE).read_text(encoding="utf-8"))
        report = reported(EXAMPLE, capsys=capsys)
        kinds = sorted({item["kind"] for item in whole["items"]})
        flags: list[str] = []
        for kind in kinds:
            file = tmp_path / f"{kind}.json"
            file.write_text(json.dumps({**whole, "items": [one for one in whole["items"] if one["kind"] == kind]}))
            flags += ["--snapshot", str(file)]
        assert reported(*flags[1:], capsys=capsys) == report

    def test_a_folder_is_read_whole_and_its_logs_are_not(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        whole = json.loads(Path(EXAMPLE).read_text(encoding="utf-8"))
        report = reported(EXAMPLE, capsys=capsys)
        (tmp_path / "shop" / "web-1").mkdir(parents=True)
        (tmp_path / "shop" / "web-1" / "logs.txt").write_text("no JSON")
        for name, is_node in (("nodes.json", True), ("shop/others.json", False)):
            items = [one for one in whole["items"] if (one["kind"] == "Node") == is_node]
            (tmp_path / name).write_text(json.dumps({**whole, "items": items}))
        assert reported(str(tmp_path), capsys=capsys) == report


def reported(*files: str, capsys: pytest.CaptureFixture[str]) -> object:
    """Return the report of these files as JSON."""
    assert entry.main(["report", "--snapshot", *files, "-o", "json"]) == Exit.FINE
    return json.loads(capsys.readouterr().out)


class TestFailOn:
    """A pipeline is green only where everything was counted, and has a node."""

    def run(self, state: known.State, folder: Path, *flags: str) -> int:
        file, policy = folder / "state.json", folder / "policy.yaml"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": state.items}))
        policy.write_text("apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\ngroups: []\n")
        return entry.main(["report", "--snapshot", str(file), "--policy", str(policy), *flags])

    def spread(self, *on: str | None, **spec: Any) -> known.State:
        return known.cluster(known.deployment(on=on, **spec))

    def test_a_pod_that_finds_no_node_counts_as_violated(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        state = self.spread("a-0", "b-0", "c-0", None, cpu="100")
        assert self.run(state, tmp_path, "--fail-on", "violated") == Exit.SOMETHING
        shown = capsys.readouterr().out
        assert "1 constraint satisfied, no limit, 1 pod without a node" in shown
        assert "shop/web (Deployment): 1 pod (web-3): 0/3 nodes are available: 3 Insufficient cpu." in shown
        assert self.run(state, tmp_path, "--fail-on", "infeasible") == Exit.FINE
        assert self.run(state, tmp_path) == Exit.FINE

    def test_one_that_waits_for_its_gate_does_not(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        state = self.spread("a-0", "b-0", "c-0", None)
        state.get("Pod", "web-3")["spec"]["schedulingGates"] = [{"name": "quota"}]
        assert self.run(state, tmp_path, "--fail-on", "violated") == Exit.FINE
        assert "1 pod (web-3): it has scheduling gates" in capsys.readouterr().out

    def test_nor_does_one_of_a_workload_without_a_rule(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        state = self.spread("a-0", None, cpu="100", topologySpreadConstraints=[], restartPolicy="Never")
        for kind in ("Service",):
            state.items = [item for item in state.items if item["kind"] != kind]
        state.items = [item for item in state.items if item["kind"] not in {"ReplicaSet", "Deployment"}]
        for pod in state.pods():
            pod["metadata"].pop("ownerReferences")
        assert self.run(state, tmp_path, "--fail-on", "violated") == Exit.FINE
        assert "WITHOUT A NODE" not in capsys.readouterr().out

    def test_what_no_node_has_is_unknown_and_no_violation(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rack = [{**known.over_zones({"app": "web"}), "topologyKey": "rack"}]
        state = self.spread("a-0", "b-0", "c-0", topologySpreadConstraints=rack)
        assert self.run(state, tmp_path, "--fail-on", "violated") == Exit.FINE
        assert "Unknown: no node that was read takes such pods and has the label rack" in capsys.readouterr().out
        assert self.run(state, tmp_path, "--fail-on", "unknown") == Exit.SOMETHING

    @pytest.mark.parametrize("kind", ["Node", "ReplicaSet"])
    def test_a_kind_that_is_missing_fails_whatever_is_asked_for(
        self, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        state = self.spread("a-0", "b-0", "c-0")
        state.items = [item for item in state.items if item["kind"] != kind]
        assert self.run(state, tmp_path, "--fail-on", "infeasible") == Exit.SOMETHING
        assert f"warning: --fail-on: no {kind} was read" in capsys.readouterr().err
        assert self.run(state, tmp_path) == Exit.FINE

    def test_so_does_one_of_which_no_object_can_be_read(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        state = self.spread("a-0", "b-0", "c-0")
        for item in state.items:
            if item["kind"] == "Node":
                item["status"] = 5
        assert self.run(state, tmp_path, "--fail-on", "infeasible") == Exit.SOMETHING
        assert "warning: --fail-on: every Node is malformed" in capsys.readouterr().err

    def test_so_does_a_selector_that_matches_nothing(self, tmp_path: Path) -> None:
        state = self.spread("a-0", "b-0", "c-0")
        assert self.run(state, tmp_path, "--fail-on", "infeasible", "-l", "app=nosuch") == Exit.SOMETHING
        assert self.run(state, tmp_path, "--fail-on", "infeasible", "-l", "app=web") == Exit.FINE


@pytest.mark.parametrize("flags", [(), ("-v",)], ids=["with an autoscaler", "without one"])
def test_sizes_without_a_placement_are_reported(
    flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Up to maxReplicas; with -v, for a workload that nothing scales, up to twice its replicas."""
    scaler = () if flags else (sizes.horizontal(8),)
    file = write_list(tmp_path / "cluster.yaml", sizes.state(*scaler).items)
    assert entry.main(["report", "--snapshot", file, "-o", "json", *flags]) == Exit.FINE
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, document_schema(ReportDocument))
    (row,) = document["sizes"]
    last = 10 if flags else 8
    assert row["workload"] == {"kind": "Deployment", "name": "web"}
    assert (row["autoscaler"], row["first"], row["last"]) == (None if flags else "shop/web-load", 1, last)
    assert row["impossible"] == [{"first": 6, "last": 6}, {"first": 8, "last": last}]
    assert row["unreachable"] == [{"first": 7, "last": 7}]
    assert row["change"] == ("Add a node in zone b" if flags else "Raise maxSkew over kubernetes.io/hostname to 2")
    said = [finding["message"] for finding in document["findings"] if finding["kind"] == "SizesWithoutPlacement"]
    assert [message.startswith("if it is scaled to 10 replicas, twice its number") for message in said] == [bool(flags)]


def test_without_v_nothing_is_said_of_workloads_that_nothing_scales(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_list(tmp_path / "cluster.yaml", sizes.state().items)
    assert entry.main(["report", "--snapshot", file, "-o", "json"]) == Exit.FINE
    assert json.loads(capsys.readouterr().out)["sizes"] == []


EXAMPLE = "docs/examples/zone-returned.json"


def map_of(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, Any]:
    """Return the map in what a command prints as JSON."""
    assert entry.main([*command, "--snapshot", EXAMPLE, "-o", "json"]) == Exit.FINE
    drawn: dict[str, Any] = json.loads(capsys.readouterr().out)["map"]
    return drawn


def test_the_map_is_a_part_of_the_documents(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the report where it is asked for: the violated workloads, those of them that are selected, or one."""
    names = [lane["workloads"][0]["name"] for lane in map_of(capsys, "report", "--map")["lanes"]]
    assert names == ["web", "cart", "search", "db"]
    assert map_of(capsys, "report") is None
    (selected,) = map_of(capsys, "report", "--map", "-l", "app=web")["lanes"]
    assert (selected["workloads"][0]["name"], selected["others"]) == ("web", [])
    one = map_of(capsys, "report", "--map", "deployment/web")
    assert [rule["what"] for rule in one["lanes"][0]["others"]][:1] == ["node, maxSkew 1"]
    assert map_of(capsys, "explain", "deployment/web") == one
    assert map_of(capsys, "explain", "pod/db-4") is None
    assert map_of(capsys, "report", "--map", "--limit", "1")["more"] == 3


def test_a_map_is_one_of_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    """A pod has none of its own, and a name must be one."""
    assert entry.main(["report", "--snapshot", EXAMPLE, "--map", "pod/db-4"]) == Exit.USAGE
    assert "--map pod/db-4 names a pod; name its workload" in capsys.readouterr().err
    assert entry.main(["report", "--snapshot", EXAMPLE, "--map", "deployment/webb"]) == Exit.ERROR
    assert "did you mean web?" in capsys.readouterr().err


def test_a_report_says_since_when_something_is_violated() -> None:
    """As far as the controller has stored it; nothing of what is satisfied."""
    snapshot = a_cluster("abc", 1, {"a-1": 3, "b-1": 1}, spread={ZONE: 1, HOSTNAME: 9}).snapshot()
    text = "{name: l, topologyKey: topology.kubernetes.io/zone, maxPods: 1}"
    rules = planning.policy(f"groups: [{{name: g, selector: {{}}, limits: [{text}]}}]")
    cycle = cycle_of(snapshot, rules)
    report = report_document(cycle.assessment, cycle.plan, cycle.causes, (), memory=cycle.memory)
    assert {row.topology_key: row.since for row in report.constraints} == {ZONE: snapshot.taken_at, HOSTNAME: None}
    assert [row.since for row in report.limits] == [snapshot.taken_at]
    without = report_document(cycle.assessment, cycle.plan, cycle.causes, ())
    assert {row.since for row in without.constraints} == {row.since for row in without.limits} == {None}
