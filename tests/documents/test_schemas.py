"""The schemas in config/ describe the documents that the program really writes."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import timedelta
from functools import cache
from io import StringIO
from typing import Any

import jsonschema
import pytest
from msgspec import Struct, structs

from rebalancer.adapters.files.manifests import read_manifests
from rebalancer.checks.document import check_document
from rebalancer.checks.results import check_monitoring, check_server
from rebalancer.cli.main import main
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue
from rebalancer.controller.status import status_documents
from rebalancer.documents.cluster_map import map_document
from rebalancer.documents.document import json_chunks, to_json
from rebalancer.documents.explanation import explain_pod, explain_workload
from rebalancer.documents.history import history_document, trend_document
from rebalancer.documents.plan import plan_document
from rebalancer.documents.prediction import prediction_document
from rebalancer.documents.resilience import resilience_document
from rebalancer.engine import evaluate
from rebalancer.history.trend import Trend, extend_trend
from rebalancer.lint.check import lint
from rebalancer.lint.document import lint_document
from rebalancer.lint.finding import Finding
from rebalancer.lint.manifest import Manifests
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Amount, Budgets, load_policy
from rebalancer.ports import PLAN_KEY, STATUS_KEY
from rebalancer.resilience.changes import find_all_changes
from rebalancer.resilience.comparison import find_effect
from rebalancer.resilience.rows import find_resilience
from rebalancer.scheduling.predict import predict
from rebalancer.simulator import HOSTNAME, START, ZONE
from tests.build import a_cluster, a_state
from tests.controller.simulated import eager
from tests.history.build import HISTORY
from tests.reports import full_report, page_of
from tools.reference import COMMAND, DOCUMENTS, ROOT, schema_text

NODES = [f"{zone}-{number}" for zone in "abc" for number in (1, 2)]
BOTH = {ZONE: 1, HOSTNAME: 1}
RULES = eager(budgets=Budgets(max_unavailable=Amount(value=2), per_workload=Amount(value=2)))


def even() -> Snapshot:
    """Nothing to do: a Deployment of one on each node."""
    return a_cluster("abc", 2, dict.fromkeys(NODES, 1), spread=BOTH).snapshot()


def skewed() -> Snapshot:
    """Evictions that go and that wait, a workload of which every pod stays, and one that arithmetic forbids."""
    blueprint = a_cluster("abc", 2)
    blueprint.deployment("web", on=dict.fromkeys(NODES[:4], 3), spread=BOTH)
    blueprint.budget("web", max_unavailable=1)
    blueprint.stateful_set("db", on=dict.fromkeys(NODES[:4], 1), spread={ZONE: 1})
    blueprint.budget("db", max_unavailable=1)
    blueprint.deployment("cart", on={"a-1": 3, "b-1": 3}, spread={ZONE: 1})
    blueprint.budget("cart", max_unavailable=1)
    blueprint.budget("cart-again", max_unavailable=2, app="cart")
    return blueprint.snapshot()


def find_mistakes(snapshot: Snapshot) -> Sequence[Finding]:
    """Return findings, none beside an empty snapshot: nothing is of it."""
    mistakes = ROOT / "docs" / "examples" / "mistakes.yaml"
    manifests = Manifests.of(read_manifests(mistakes.read_text(), "mistakes.yaml"))
    policy = load_policy((ROOT / "docs" / "examples" / "limits.yaml").read_bytes(), source="limits.yaml")
    return lint(manifests, policy=policy) if snapshot.pods else ()


def empty() -> Snapshot:
    """Nothing at all."""
    return Snapshot(taken_at=START)


def written(snapshot: Snapshot) -> Iterator[tuple[str, bytes]]:
    """Write every document that can be made of a snapshot."""
    evaluation = evaluate(snapshot, RULES)
    view, assessment, made = evaluation.view, evaluation.assessment, evaluation.plan

    def text(document: Struct) -> bytes:
        whole = to_json(document)
        assert "".join(json_chunks(document)).encode() == whole, "the same in pieces"
        return whole

    yield "history", text(history_document(HISTORY, total=len(HISTORY)))
    yield "trend", text(trend_document(extend_trend(Trend(), HISTORY)))
    yield "check", text(check_document([check_monitoring(served=False), check_server(snapshot.version)]))
    yield "plan", text(plan_document(made, snapshot, effect=find_effect(view, made.fates)))
    yield "map", text(map_document(evaluation, NO_MEMORY))
    losses = [*find_resilience(view, [ZONE, HOSTNAME], Phase, lambda _: True)]
    changes, left = find_all_changes(view, [ZONE, HOSTNAME], tuple(Phase), losses, named=False)
    lost = resilience_document([ZONE, HOSTNAME], 3, losses, 100, changes, left, view.nodes.by_name)
    yield "resilience", text(lost)
    yield "report", text(full_report(view, assessment, made, RULES, lost=lost))
    yield "lint", text(lint_document(find_mistakes(snapshot), files=1, objects=3))
    for workload in snapshot.workloads:
        reference = Reference(workload.namespace, workload.kind, workload.name)
        yield "explanation", text(explain_workload(reference, assessment, made, snapshot))
    for pod in snapshot.pods[:3]:
        yield "explanation", text(explain_pod(pod, view, assessment, made))
        yield "prediction", text(prediction_document(predict(structs.replace(pod, node=None), view.without([pod]))))
    now = snapshot.taken_at + timedelta(seconds=1)
    state, _ = step(a_state(RULES, now), CycleDue(snapshot=replace(snapshot, taken_at=now)), now)
    remaining = {document.key: document.text.encode() for document in status_documents(state, "pod-1", "policy.yaml")}
    yield "status", remaining[STATUS_KEY]
    yield "plan", remaining[PLAN_KEY]
    yield "page", text(page_of(state))


def simulated() -> bytes:
    """Return what `rebalancer simulate` prints."""
    with redirect_stdout(StringIO()) as printed:
        assert main(["simulate", "--snapshot", "docs/examples/zone-returned.json", "-o", "json"]) == 0
    return printed.getvalue().encode()


@cache
def schema_of(name: str) -> Any:
    return json.loads(schema_text(name))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_exported_schemas_are_current(name: str) -> None:
    """Editors and scripts read the committed file."""
    file = ROOT / "config" / f"{name}.schema.json"
    assert file.exists(), f"{file.name} is missing: {COMMAND}"
    assert file.read_text(encoding="utf-8") == schema_text(name), f"{file.name} is stale: {COMMAND}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_file_is_a_valid_schema(name: str) -> None:
    """By the rules of the draft that it names."""
    jsonschema.Draft202012Validator.check_schema(schema_of(name))


@pytest.mark.parametrize("make", [even, skewed, empty])
def test_real_documents_are_valid(make: Callable[[], Snapshot]) -> None:
    """Whatever is written of a cluster fits the schema of its kind."""
    seen = set()
    for name, text in written(make()):
        document = json.loads(text)
        jsonschema.Draft202012Validator(schema_of(name)).validate(document)
        assert document["kind"].lower() == name
        seen.add(name)
    assert {"plan", "report", "status"} <= seen


def test_the_skewed_cluster_fills_every_list() -> None:
    """A schema is not shown right by lists without entries."""
    documents = dict(written(skewed()))
    plan_lists = json.loads(next(text for name, text in written(skewed()) if name == "plan"))
    assert plan_lists["resilience"]["rows"]
    assert all(plan_lists[name] for name in ("evictions", "waiting", "groups", "refusals"))
    assert json.loads(documents["status"])["inFlight"]
    assert json.loads(documents["report"])["constraints"]
    assert json.loads(documents["report"])["limits"]
    assert json.loads(documents["report"])["failures"]
    assert json.loads(documents["prediction"])["nodes"]
    drawn = json.loads(documents["map"])
    assert all(zone["nodes"] for zone in drawn["zones"])
    assert all(lane[name] for lane in drawn["lanes"][:1] for name in ("domains", "nodes", "zones", "moves"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_field_that_is_missing_or_of_another_type_is_refused(name: str) -> None:
    """Else the schema would say nothing."""
    document = json.loads(simulated() if name == "simulation" else dict(written(skewed()))[name])
    validator = jsonschema.Draft202012Validator(schema_of(name))
    for field in set(document) - {"apiVersion", "kind"}:
        assert not validator.is_valid({key: value for key, value in document.items() if key != field}), field
        assert not validator.is_valid({**document, field: [1.5]}), field
