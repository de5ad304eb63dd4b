"""Anti-affinity in the report, the plan and an explanation: who conflicts with whom, and why it is not repaired."""

from collections.abc import Sequence
from dataclasses import replace

from rebalancer.documents.explanation import explain_pod, explain_workload
from rebalancer.documents.plan import plan_document
from rebalancer.documents.plan_notes import find_notes
from rebalancer.documents.report import ReportDocument
from rebalancer.engine import Evaluation, evaluate
from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import AntiAffinity
from rebalancer.reporting.text.explanation import explanation_text
from rebalancer.reporting.text.plan import plan_text
from rebalancer.reporting.text.report import report_text
from tests.build import a_cluster, away_from, with_anti_affinity
from tests.controller.simulated import eager
from tests.reports import full_report

WEB, BATCH = Reference("default", "Deployment", "web"), Reference("default", "Deployment", "batch")
NOT_ACTED_ON = "antiAffinity.actOn does not list Required"


def evaluated(batch: int = 3, terms: Sequence[PodAffinityTerm] = (away_from("web"),)) -> Evaluation:
    """Return batch pods that avoid web, of which one is beside them."""
    builder = a_cluster("abc", 1, {"a-1": 1, "b-1": 1})
    builder.deployment("batch", on={"a-1": batch})
    rules = eager().model_copy(update={"anti_affinity": AntiAffinity()})
    return evaluate(with_anti_affinity(builder.snapshot(), {"batch": terms}), rules)


def report(evaluation: Evaluation) -> ReportDocument:
    return full_report(evaluation.view, evaluation.assessment, evaluation.plan, eager())


def names(snapshot: Snapshot, app: str, node: str) -> str:
    return ", ".join(pod.name for pod in snapshot.pods if pod.labels["app"] == app and pod.node == node)


def test_a_row_says_who_conflicts_with_whom_and_where() -> None:
    evaluation = evaluated(batch=7)
    (row,) = report(evaluation).anti_affinity
    assert (row.namespace, [one.name for one in row.workloads]) == ("default", ["batch"])
    assert (row.topology_key, row.selects) == ("kubernetes.io/hostname", "pods that match app=web")
    assert (row.state, row.excess, row.message, row.omitted_domains) == ("Violated", 1, "1 pod in excess", 0)
    (conflict,) = row.conflicts
    assert (conflict.domain, conflict.excess, conflict.omitted_workloads) == ("a-1", 1, 0)
    assert [(one.workload.name, one.declares, len(one.pods), one.omitted) for one in conflict.workloads] == [
        ("batch", True, 5, 2),
        ("web", False, 1, 0),
    ]


def test_the_violated_come_first_and_only_they_are_in_the_table() -> None:
    evaluation = evaluated(terms=[away_from("nobody"), away_from("web")])
    document = report(evaluation)
    assert [row.state for row in document.anti_affinity] == ["Violated", "Satisfied"]
    text = report_text(document)
    snapshot = evaluation.view.snapshot
    pods = f"a-1: {names(snapshot, 'batch', 'a-1')}, {names(snapshot, 'web', 'a-1')}"
    assert text.splitlines()[0].endswith("1 of 2 anti-affinity terms not satisfied.")
    (line,) = (line for line in text.splitlines() if "batch (Deployment)  node" in line and "app=web" in line)
    assert line.endswith(f"1       Violated  {pods}")
    why = f"Violated: 1 pod in excess. Excluded: {NOT_ACTED_ON}"
    assert f"default/batch (Deployment): {why}\n" in text
    assert text.endswith("\n1 of 2 required podAntiAffinity terms are satisfied.\n")
    assert "app=nobody" not in text


def test_only_so_many_are_shown() -> None:
    terms = [away_from("web"), away_from("batch")]
    text = report_text(report(evaluated(terms=terms)), most=1)
    assert text.count("Violated: ") == 1
    assert "0 of 2 required podAntiAffinity terms are satisfied." in text


def test_what_is_satisfied_is_a_number() -> None:
    text = report_text(report(evaluated(terms=[away_from("nobody")])))
    assert text.endswith("\n1 of 1 required podAntiAffinity term is satisfied.\n")
    assert "1 anti-affinity term satisfied" in text.splitlines()[0]


def test_without_terms_nothing_is_said() -> None:
    document = report(evaluated(terms=[]))
    assert document.anti_affinity == ()
    assert "ffinity" not in report_text(document)


def test_of_many_conflicts_the_first_are_listed() -> None:
    builder = a_cluster("a", 14, {f"a-{number}": 2 for number in range(1, 15)})
    snapshot = with_anti_affinity(builder.snapshot(), {"web": [away_from("web")]})
    document = report(evaluate(snapshot, eager()))
    (row,) = document.anti_affinity
    assert (len(row.conflicts), row.omitted_domains, row.excess) == (12, 2, 14)
    assert "and 2 more domains" in report_text(document)


def test_of_many_workloads_in_a_domain_the_first_are_listed() -> None:
    builder = a_cluster("ab", 1, {"a-1": 1})
    for number in range(14):
        builder.deployment(f"other-{number:02}", on={"a-1": 1})
    everybody = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector())
    document = report(evaluate(with_anti_affinity(builder.snapshot(), {"web": [everybody]}), eager()))
    (conflict,) = document.anti_affinity[0].conflicts
    assert (len(conflict.workloads), conflict.omitted_workloads) == (12, 3)
    assert ", 3 more workloads" in report_text(document)


def test_only_the_chosen_are_reported() -> None:
    """Those that declare a term, and those of the other side while it is violated."""
    evaluation = evaluated(terms=[away_from("web"), away_from("nobody")])
    for name, number in (("batch", 2), ("web", 1), ("other", 0)):
        document = full_report(
            evaluation.view,
            evaluation.assessment,
            evaluation.plan,
            eager(),
            lambda workload, name=name: workload.name == name,  # type: ignore[misc]
        )
        assert len(document.anti_affinity) == number


def test_a_plan_says_that_it_is_violated_and_not_repaired() -> None:
    evaluation = evaluated()
    for chosen, number in ((None, 1), (frozenset({WEB}), 1), (frozenset({Reference("x", "Deployment", "y")}), 0)):
        notes = find_notes(evaluation.plan, evaluation.assessment, chosen)
        text = plan_text(plan_document(evaluation.plan, evaluation.view.snapshot, beside=notes, acting="mode Observe"))
        line = f"1 required podAntiAffinity term is violated and not repaired ({NOT_ACTED_ON}); see rebalancer report"
        assert text.count(line) == number


def test_an_explanation_of_either_workload_has_the_term() -> None:
    evaluation = evaluated()
    snapshot = evaluation.view.snapshot
    for workload in (WEB, BATCH):
        document = explain_workload(workload, evaluation.assessment, evaluation.plan, snapshot)
        text = explanation_text(document)
        assert "Is required podAntiAffinity over kubernetes.io/hostname to pods that match app=web satisfied?" in text
        assert "  Violated: 1 pod in excess\n  declared by default/batch (Deployment)\n" in text
        batch, web = names(snapshot, "batch", "a-1"), names(snapshot, "web", "a-1")
        assert f"  a-1: {batch} of default/batch (Deployment), {web} of default/web (Deployment)\n" in text
        assert f"  Excluded: {NOT_ACTED_ON}\n" in text


def test_an_explanation_of_a_pod_says_that_its_conflict_is_not_repaired() -> None:
    """Only of one that conflicts; the other web pod is alone."""
    evaluation = evaluated()
    texts = [
        explanation_text(explain_pod(pod, evaluation.view, evaluation.assessment, evaluation.plan))
        for pod in evaluation.view.snapshot.pods
        if pod.labels["app"] == "web"
    ]
    sentence = f"required podAntiAffinity of this pod, or to it, is violated: {NOT_ACTED_ON}"
    assert [sentence in text for text in texts] == [True, False]
    assert "; this pod is in 'a-1'" in texts[0]


def test_a_satisfied_term_is_explained_in_a_word() -> None:
    evaluation = evaluated(terms=[away_from("nobody")])
    text = explanation_text(explain_workload(BATCH, evaluation.assessment, evaluation.plan, evaluation.view.snapshot))
    assert "app=nobody satisfied?\n  Satisfied\n  declared by default/batch (Deployment)\n" in text
    assert NOT_ACTED_ON not in text


def test_without_nodes_the_state_is_not_known() -> None:
    snapshot = evaluated().view.snapshot
    evaluation = evaluate(replace(snapshot, nodes=(), unknown=frozenset({"Node"})), eager())
    (row,) = report(evaluation).anti_affinity
    assert (row.state, row.message) == ("Unknown", "no node was read: which pods share a domain is not known")
