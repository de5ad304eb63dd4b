"""The files that are shipped say what the code means: the default policy and the JSON Schema."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.policy import Mode, Policy, PolicyError, default_policy, json_schema, load_policy
from tests.policy.strategies import documents

CONFIG = Path(__file__).parents[2] / "config"
SHIPPED = CONFIG / "policy.yaml"
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def loads(document: Any) -> bool:
    try:
        load_policy(yaml.safe_dump(document, allow_unicode=True).encode(), source="policy.yaml")
    except PolicyError:
        return False
    return True


def leaves(document: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in document.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from leaves(value, (*above, key))


def test_the_shipped_policy_means_the_default_one_and_names_every_field() -> None:
    """Reading config/policy.yaml is reading all there is to set, and observes."""
    assert load_policy(SHIPPED.read_bytes(), source="config/policy.yaml") == default_policy()
    assert default_policy().mode is Mode.OBSERVE
    assert list(leaves(yaml.safe_load(SHIPPED.read_bytes()))) == list(leaves(default_policy().to_dict()))


def test_the_exported_schema_is_current() -> None:
    """Editors read the committed file."""
    committed = json.loads((CONFIG / "policy.schema.json").read_text())
    assert committed == json_schema(), "stale: run `rebalancer policy schema > config/policy.schema.json`"


def test_every_field_has_its_default_on_its_own() -> None:
    """Writing one field never changes the default of another: leave any one out, and the meaning stays."""
    full = default_policy().to_dict()
    for path in leaves(full):
        if path[-1] in {"apiVersion", "kind", "groups"}:  # the shipped policy has a group, an own one none
            continue
        if path[0] == "antiAffinity" and path[-1] != "for":  # an own policy acts on no terms
            continue
        document = deepcopy(full)
        inner = document
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
        assert Policy.model_validate(document) == default_policy(), path


def test_the_schema_is_a_schema_with_a_description_for_every_field() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    sections = [json_schema(), *json_schema()["$defs"].values()]
    undescribed = [
        name
        for section in sections
        for name, field in section.get("properties", {}).items()
        if not field.get("description")
    ]
    assert undescribed == []


@given(documents)
def test_the_schema_accepts_every_valid_policy(document: dict[str, Any]) -> None:
    """An editor shows no error where the loader sees none, with and without defaults."""
    VALIDATOR.validate(document)
    VALIDATOR.validate(load_policy(yaml.safe_dump(document, allow_unicode=True).encode(), source="x").to_dict())


def limit(**fields: Any) -> dict[str, Any]:
    return {"groups": [{"name": "g", "selector": {}, "limits": [{"name": "l", "topologyKey": "zone", **fields}]}]}


def guard(prometheus: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a policy with one guard, which is valid without fields."""
    query = {"name": "a", "query": "x", "present": "up", **fields}
    return {"guards": {"prometheus": prometheus or {"url": "http://a:9090"}, "queries": [query]}}


BAD: list[dict[str, Any]] = [
    {"groups": None},
    {"groups": [{"name": "g"}]},
    {"groups": [{"selector": {}}]},
    {"groups": [{"name": "g,h", "selector": {}}]},
    {"groups": [{"name": "g", "selector": None}]},
    {"groups": [{"name": "g", "selector": {}, "groupBy": "Workload"}]},
    {"groups": [{"name": "g", "selector": {}, "groupBy": []}]},
    {"groups": [{"name": "g", "selector": {}, "groupBy": ["a", "a"]}]},
    {"groups": [{"name": "g", "selector": {}, "groupBy": ["Workload", "a"]}]},
    {"groups": [{"name": "g", "selector": {}, "groupBy": ["a b"]}]},
    {"groups": [{"name": "g", "selector": {}, "disruption": {"maxInFlight": 0}}]},
    {"groups": [{"name": "g", "selector": {}, "zoneKey": None}]},
    limit(),
    limit(maxPods=1, minPods=1),
    limit(maxShare="1/3"),
    limit(maxShare=">1"),
    limit(maxShare=0),
    limit(maxShare="0"),
    limit(maxShare="<0%"),
    limit(maxShare="<1/0"),
    limit(maxShare="<=1"),
    limit(maxShare="< 1/3"),
    limit(maxPods=0),
    limit(maxSkew="1"),
    limit(maxPods=1, when={"zones": "3"}),
    limit(maxPods=1, when={"total": "=>3"}),
    limit(maxPods=1, when={"total": -1}),
    limit(maxPods=1, domains=[]),
    limit(maxPods=1, domains=["a", "a"]),
    limit(maxPods=1, of="all"),
    limit(maxPods=1, severity="bad"),
    limit(maxPods=1, action="Move"),
    {"mode": "Ask"},
    {"mode": "evict"},
    {"interval": 60},
    {"interval": "0s"},
    {"interval": "5"},
    {"planTTL": ""},
    {"plan_ttl": "5m"},
    {"spread": None},
    {"spread": {"actOn": "DoNotSchedule"}},
    {"spread": {"actOn": ["Never"]}},
    {"eligibility": {"owners": ["Deployment"]}},
    {"eligibility": {"owners": ["DaemonSet.apps"]}},
    {"eligibility": {"owners": ["CloneSet"]}},
    {"eligibility": {"minReplicas": 0}},
    {"eligibility": {"minReplicas": True}},
    {"eligibility": {"priorityBelow": "1000"}},
    {"eligibility": {"priorityBelow": 2**31}},
    {"eligibility": {"namespaces": {"include": ["Team"]}}},
    {"eligibility": {"selector": {"matchLabels": {"a b": "c"}}}},
    {"eligibility": {"selector": {"matchLabels": {"a": 1}}}},
    {"eligibility": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
    {"eligibility": {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}}},
    {"eligibility": {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}},
    {"eligibility": {"selector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}},
    {"budgets": {"perCycle": -1}},
    {"budgets": {"perCycle": "101%"}},
    {"budgets": {"perCycle": 1.5}},
    {"budgets": {"perCycle": None}},
    {"nodes": {"settle": "soon"}},
    {"scheduler": {"name": ""}},
    {"scheduler": {"name": None}},
    {"scheduler": {"configFile": " "}},
    {"budgets": {"canary": -1}},
    {"budgets": {"canary": "10%"}},
    {"guards": []},
    {"guards": {"queries": [{"name": "a", "query": "x", "present": "up"}]}},
    guard(name="a b"),
    guard(query=" "),
    guard(query=5),
    guard(present=None),
    guard(expect="NotEmpty"),
    guard(expect="None"),
    guard({"url": "prometheus:9090"}),
    guard({"url": "ftp://prometheus:9090"}),
    guard({"url": "http://user:password@prometheus:9090"}),
    guard({"url": "http://prometheus:9090/api/v1/query"}),
    guard({"url": "http://prometheus:9090?a=b"}),
    guard({"url": "http://prometheus:9090", "tokenFile": "/token"}),
    guard({"url": "http://prometheus:9090", "caFile": "/ca.crt"}),
    guard({"url": "http://a", "timeout": "0s"}),
]


@pytest.mark.parametrize("fields", BAD, ids=str)
def test_the_schema_rejects_what_the_loader_rejects(fields: dict[str, Any]) -> None:
    """And an editor shows the error before the controller does."""
    document = {"apiVersion": "rebalancer.dev/v1alpha1", "kind": "RebalancePolicy"} | fields
    assert not loads(document)
    assert not VALIDATOR.is_valid(document)


@given(documents, st.data())
def test_schema_and_loader_agree_when_a_value_is_replaced(document: dict[str, Any], data: st.DataObject) -> None:
    """Any value in the place of any other: both accept it or neither does."""
    path = data.draw(st.sampled_from(list(leaves(document))))
    replacement: Any = data.draw(
        # No duration over an hour: how long a field may last at most is the loader's rule alone, no pattern says it.
        st.sampled_from(["", "5m", "1h", 3, -1, None, True, [], {}, "10%", ["a"], "ReplicaSet", ["ReplicaSet"], "x-1"])
    )
    inner = document = deepcopy(document)
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = replacement
    assert loads(document) == VALIDATOR.is_valid(document)
