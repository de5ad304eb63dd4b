"""How manifests are read: lines, lists, other kinds, comments, and what cannot be read."""

from textwrap import dedent

import pytest

from rebalancer.lint.check import lint
from rebalancer.lint.finding import Rule, Severity
from rebalancer.lint.manifest import Manifests
from tests.lint.build import affinity, budget, deployment, manifests, spread, term, text

WEDGED = """
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
    spec:
      replicas: 2
      selector: &own
        matchLabels: {app: web}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers: [{name: web, image: web}]
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - topologyKey: kubernetes.io/hostname
                labelSelector: *own
"""


def read(written: str) -> Manifests:
    return manifests(dedent(written))


def rows(written: str) -> list[tuple[int, str]]:
    return [(one.line, one.rule) for one in lint(read(written))]


def test_a_finding_stands_at_the_line_of_its_field() -> None:
    """In the second document of a file, and where the field is an anchor's."""
    assert rows(f"apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n---{dedent(WEDGED)}") == [
        (20, Rule.ROLLOUT_WEDGES)
    ]


def test_json_is_read_as_well() -> None:
    """With the lines of its text."""
    made = '{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},\n'
    assert rows(f'{made}"spec": {{"selector": {{}},\n"maxUnavailable": 0}}}}') == [(3, Rule.BUDGET_ALLOWS_NOTHING)]


def test_a_list_in_a_list_is_read() -> None:
    """Its objects are found where they stand, and so are the operations of a patch."""
    inner = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [deployment(strategy={"rollingUpdate": {"maxUnavailable": 0}}, affinity=affinity(apart=[term()]))],
    }
    written = text({"apiVersion": "v1", "kind": "List", "items": [budget(maxUnavailable=1), inner]})
    (one,) = [one for one in lint(manifests(written)) if one.rule is Rule.ROLLOUT_WEDGES]
    assert one.manifest.title == "Deployment shop/web"
    assert one.patch[0].pointer_in(one.manifest).startswith("/items/1/items/0/spec/strategy")
    assert "topologyKey" in written.splitlines()[one.line - 1]


def test_objects_of_a_list_have_changes_in_their_document() -> None:
    """As `kubectl get -o yaml` prints them."""
    written = text({"apiVersion": "v1", "kind": "List", "items": [deployment(affinity=affinity(apart=[term()]))]})
    (one,) = lint(manifests(written))
    assert [operation.pointer_in(one.manifest) for operation in one.patch] == ["/items/0/spec/strategy"]
    assert one.line == written.splitlines().index("            - topologyKey: kubernetes.io/hostname") + 1


def test_a_comment_turns_a_rule_off_for_its_document() -> None:
    """Within it, or right before it; not for the next one."""
    comment = "# rebalancer-lint: ignore=rollout-wedges there are spare nodes\n"
    document = dedent(WEDGED)
    other = document.replace("name: web\nspec", "name: api\nspec")
    assert rows(f"{comment}{document}") == []
    assert rows(document.replace("spec:\n  replicas", f"spec: {comment}  replicas")) == []
    assert [rule for _, rule in rows(f"{comment}{document}---{other}")] == [Rule.ROLLOUT_WEDGES]
    assert [rule for _, rule in rows(f"{document}---\n{comment}{other}")] == [Rule.ROLLOUT_WEDGES]


def test_a_comment_between_two_documents_belongs_to_the_second() -> None:
    """On the line that divides them, and before it; not where it is indented as the first is."""
    comment = "# rebalancer-lint: ignore=rollout-wedges there are spare nodes\n"
    document = dedent(WEDGED)
    other = document.replace("name: web\nspec", "name: api\nspec")
    first, second = (rows(f"{document}---{other}")[which] for which in (0, 1))
    assert rows(f"{document}--- {comment}{other.lstrip()}")[:1] == [first]
    assert rows(f"{document}{comment}---{other}") == [first]
    assert rows(f"{document}  {comment}---{other}") == [(second[0] + 1, second[1])]
    assert rows(f"{document}---{other}{comment}") == [first]


def test_a_comment_turns_several_rules_off() -> None:
    """Divided by commas, with spaces or without."""
    made = text(deployment(labels={"app": "wep"}, affinity=affinity(apart=[term(labelSelector={})])))
    assert len(rows(made)) == 2
    for names in ("rollout-wedges, selector-misses-template why", "selector-misses-template,rollout-wedges why"):
        assert rows(f"# rebalancer-lint: ignore={names}\n{made}") == []


@pytest.mark.parametrize(
    ("written", "replicas"),
    [("1_000", 1000), ("0x3", 3), ("010", 8), ("0b11", 3), ("0", 0), ("-0x3", -3), ("9" * 5_000, None), ("1:30", None)],
)
def test_an_integer_is_read_as_kubectl_reads_it(written: str, replicas: int | None) -> None:
    """The API server refuses what is none of 64 bits."""
    made = text(deployment()).replace("replicas: 3", f"replicas: {written}")
    (one,) = manifests(made).every
    assert (one.workload.replicas if one.workload else None) == replicas
    assert bool(one.problem) == (replicas is None)


def test_json_may_escape_characters_beyond_16_bits() -> None:
    """In two escapes, which YAML does not allow; after an escaped backslash there is none."""
    made = '{"kind": "ConfigMap", "data": {"a": "\\ud83d\\ude00", "b": "\\\\ud83d\\\\ude00"}}'
    (one,) = manifests(made).every
    assert one.value["data"] == {"a": "\U0001f600", "b": "\\ud83d\\ude00"}


@pytest.mark.parametrize("deep", ["[" * 50_000, "{a: " * 100, "- " * 100])
def test_a_document_that_is_too_deep_hides_nothing_of_those_before(deep: str) -> None:
    """However deep it is."""
    found = lint(manifests(f"{text(deployment(labels={'app': 'wep'}))}---\n{deep}"))
    assert [one.rule for one in found] == [Rule.SELECTOR_MISSES_TEMPLATE, Rule.UNREADABLE]


@pytest.mark.parametrize(
    ("version", "kind", "body"),
    [
        (
            "v1",
            "Pod",
            {"spec": {"containers": [{"name": "web"}], "topologySpreadConstraints": [spread(labelSelector=None)]}},
        ),
        ("batch/v1", "CronJob", {"spec": {"jobTemplate": {"spec": {"template": deployment()["spec"]["template"]}}}}),
        (
            "apps.kruise.io/v1alpha1",
            "CloneSet",
            {"spec": {"replicas": 3, "template": deployment()["spec"]["template"]}},
        ),
        ("apps/v1", "DaemonSet", {"spec": {"selector": {}, "template": deployment()["spec"]["template"]}}),
        (
            "batch/v1",
            "Job",
            {"spec": {"selector": {"app": "not a selector"}, "template": deployment()["spec"]["template"]}},
        ),
    ],
)
def test_every_kind_with_a_pod_template_is_read(version: str, kind: str, body: dict[str, object]) -> None:
    """Whatever it is called, and whatever else its spec has."""
    made = {"apiVersion": version, "kind": kind, "metadata": {"generateName": "web-"}, **body}
    (one,) = manifests(text(made)).every
    assert one.problem == ""
    assert (one.title, one.workload is not None) == (f"{kind} web-", True)


def test_a_kind_of_another_group_is_not_kubernetes_own() -> None:
    """Whatever it is called: what Kubernetes refuses of its own kind is not said of it."""
    wrong = [
        deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 0}}),
        deployment(labels={"app": "wep"}) | {"kind": "Worker"},
        budget(minAvailable=1, maxUnavailable=1),
    ]
    found = lint(manifests(text(*[one | {"apiVersion": "example.com/v1"} for one in wrong])))
    assert [(one.rule, one.severity, one.manifest.title) for one in found] == [
        (Rule.SELECTOR_MISSES_TEMPLATE, Severity.WARNING, "Worker shop/web")
    ]
    assert found[0].message.endswith("(app=wep): its controller may find none of its pods")
    (other, *_) = manifests(text(wrong[0] | {"apiVersion": "example.com/v1"})).every
    assert other.title == "Deployment.example.com shop/web"


def test_the_pods_of_a_job_have_its_name() -> None:
    """In both labels that the API server adds."""
    for key in ("job-name", "batch.kubernetes.io/job-name"):
        chosen = [spread(labelSelector={"matchLabels": {key: "web"}})]
        body = {"spec": {"template": {"spec": {"containers": [{"name": "web"}], "topologySpreadConstraints": chosen}}}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, **body}
        assert rows(text(job)) == []
        assert [rule for _, rule in rows(text(job | {"metadata": {"name": "api"}}))] == [Rule.SPREAD_MISSES_PODS]


def test_what_the_api_server_would_refuse_is_said_with_its_field() -> None:
    """The other objects of the file are looked at all the same."""
    bad = text(deployment(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone"}]))
    other = deployment(affinity=affinity(apart=[term()])) | {"metadata": {"name": "api", "namespace": "shop"}}
    found = lint(manifests(f"{bad}---\n{text(other)}"))
    assert [one.rule for one in found] == [Rule.UNREADABLE, Rule.ROLLOUT_WEDGES]
    assert "whenUnsatisfiable" in found[0].message
    assert found[0].message.endswith(": the API server refuses it")


@pytest.mark.parametrize(
    ("written", "line", "message"),
    [
        ("kind: Deployment\nspec: [\n", 3, "not valid YAML: "),
        (
            "kind: Deployment\nname: {{ .Values.name }}",
            2,
            "this is a template of a chart: give what helm template prints",
        ),
        (f"kind: X\na: {'[' * 70}{']' * 70}", 2, "nested deeper than 64 levels"),
        ("[" * 50_000, 1, "nested deeper than 64 levels"),
        ("kind: X\na: \u0000", 1, "not valid YAML: "),
        ('{"kind": "X",\n"a": "\\ud8zz\\udczz"}', 2, "not valid YAML: "),
    ],
)
def test_a_file_that_cannot_be_read_is_a_finding(written: str, line: int, message: str) -> None:
    """It says where, and what to give instead."""
    (one,) = lint(manifests(written))
    assert one.rule is Rule.UNREADABLE
    assert one.line == line
    assert message in one.message
    assert "the API server" not in one.message


@pytest.mark.parametrize(
    ("written", "line", "message"),
    [
        (
            "kind: Deployment\nspec:\n  replicas: 2\n  template: {}\n  replicas: 3\n",
            5,
            "key replicas of line 3 is there again: kubectl takes the last value, and other tools refuse the file",
        ),
        (
            "apiVersion: v1\nkind: Service\napiVersion: apps/v1\nkind: Deployment\n",
            3,
            (
                "key apiVersion of line 1 is there again: kubectl takes the last value, and other tools refuse the "
                "file; are these two documents without --- between them?"
            ),
        ),
        ('{"kind": "Deployment",\n"a": [{"b": 1,\n"b": 1}]}', 3, "key b of line 2 is there again: kubectl takes"),
    ],
)
def test_a_key_that_is_there_twice_is_a_warning_of_its_document(written: str, line: int, message: str) -> None:
    """The document is read all the same, and so are the others of the file."""
    read = manifests(f"{written}\n---\n{text(deployment(labels={'app': 'wep'}))}")
    first, second = lint(read)
    assert (first.rule, first.severity, first.line) == (Rule.UNREADABLE, Severity.WARNING, line)
    assert first.message.startswith(message)
    assert second.rule is Rule.SELECTOR_MISSES_TEMPLATE
    assert [one.kind for one in read.every if one.kind] == ["Deployment"] * 2
    assert rows(f"# rebalancer-lint: ignore=unreadable\n{written}") == []


def test_of_a_key_that_is_there_twice_the_last_value_counts() -> None:
    """As kubectl takes it, at its line."""
    written = "kind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n  maxUnavailable: 1\n  maxUnavailable: 0\n"
    assert rows(written) == [(5, Rule.BUDGET_ALLOWS_NOTHING), (5, Rule.UNREADABLE)]


def test_a_key_beside_the_same_one_of_an_anchor_is_not_there_twice() -> None:
    """What is merged is a default, and may be merged twice; the same key of two mappings is no mistake either."""
    assert rows("kind: X\na: &a {b: 1}\nc: &c {b: 2}\nd:\n  <<: *a\n  <<: *c\n  b: 3\n") == []


def test_anchors_that_mean_millions_of_values_are_refused() -> None:
    """Before they are made."""
    lines = ["kind: X", "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]" for number in range(1, 9)]
    (one,) = lint(manifests("\n".join(lines)))
    assert "more than 1,000,000 values" in one.message


def test_documents_that_are_no_objects_are_passed_over() -> None:
    """Values of charts, empty documents, notes of kustomize, and objects of other kinds."""
    assert rows("a: 1\n---\n---\n- 1\n---\nkind: Service\nmetadata: {name: web}\n---\nkind: 7\n") == []
