"""Each check says what is so, and where it is wrong the way out; what may not be read is unknown and no fault."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.assessment.findings import Finding
from rebalancer.checks import results
from rebalancer.checks.document import check_document, check_text
from rebalancer.checks.results import OtherProgram, Outcome, Result
from rebalancer.documents.status import LeaseStatus
from rebalancer.locations import ConfigMapPolicy
from rebalancer.model.cluster import NEWEST, Version
from rebalancer.model.history import NOBODY, Author
from rebalancer.model.reasons import FindingKind
from rebalancer.policy import Mode
from rebalancer.reporting.text.layout import TextLayout
from tests.reporting.text.test_status import NOW, STATUS

LEADS = LeaseStatus(holder=STATUS.leader, since=NOW - timedelta(hours=1))
FREE = LeaseStatus(free_since=NOW - timedelta(minutes=5))
GOOD = GuardAnswer("errors", Verdict.GOOD, "0 series")
DESCHEDULER = OtherProgram("CronJob", "kube-system", "descheduler", "kubectl patch …")
MINUTES = timedelta(minutes=10)


def finding(kind: FindingKind, about: str, message: str) -> Finding:
    return Finding(kind=kind, object=about, message=message)


def controller(lease: LeaseStatus) -> Result:
    return results.check_controller(structs.replace(STATUS, lease=lease), lease, "ops", NOW)


@pytest.mark.parametrize(
    ("result", "outcome", "said", "remedy"),
    [
        (results.check_server(NEWEST), Outcome.OK, "is modelled", ""),
        (
            results.check_server(Version(1, 99)),
            Outcome.WRONG,
            "otherwise than predicted",
            "newer release of Rebalancer",
        ),
        (results.check_controller(None, LeaseStatus(), "ops", NOW), Outcome.WRONG, "namespace ops", "apply deploy/"),
        (
            results.check_controller(None, LeaseStatus(), "ops", NOW, elsewhere="ConfigMap x is in shop"),
            Outcome.WRONG,
            "namespace ops; ConfigMap x is in shop",
            "--controller-namespace",
        ),
        (results.pass_over_rights("ops"), Outcome.UNKNOWN, "ops has no controller", "--controller-namespace"),
        (controller(LEADS), Outcome.OK, "leads since", ""),
        (controller(FREE), Outcome.WRONG, "no controller runs", "kubectl get pods -n ops"),
        (controller(LeaseStatus(error="forbidden")), Outcome.UNKNOWN, "forbidden", "kubectl get pods"),
        (controller(LeaseStatus(holder="another")), Outcome.WRONG, "another leads", "log of its pod"),
        (results.check_rights(Mode.EVICT, {}), Outcome.OK, "mode Evict", ""),
        (results.check_rights(Mode.EVICT, {"evict": ["shop"]}), Outcome.WRONG, "evict in shop", "evict-rights/"),
        (
            results.check_rights(Mode.OBSERVE, {"list and watch pods, nodes": []}),
            Outcome.WRONG,
            "list and watch pods, nodes",
            "deploy/base/cluster-role.yaml",
        ),
        (
            results.check_rights(Mode.EVICT, {"list services": [], "evict": ["shop"]}),
            Outcome.WRONG,
            "list services; evict in shop",
            "in these files; apply deploy/components/evict-rights/",
        ),
        (
            results.check_rights(Mode.EVICT, {"watch services": ["shop"]}),
            Outcome.WRONG,
            "watch services in shop",
            "kubectl apply -n NAMESPACE -k deploy/workloads",
        ),
        (results.check_policy("policy 1 (x)", "", NOBODY), Outcome.OK, "policy 1 (x)", ""),
        (
            results.check_policy("policy 1", "", Author(manager="helm", at=1_767_225_600)),
            Outcome.OK,
            "changed by helm at 2026-01-01 00:00:00Z",
            "",
        ),
        (
            results.check_policy("policy 1", "it is refused", NOBODY, written=ConfigMapPolicy("ops", "mine")),
            Outcome.WRONG,
            "it is refused",
            r"get configmap mine -n ops -o jsonpath='{.data.policy\.yaml}' | rebalancer policy validate - lists",
        ),
        (results.check_policy("policy 1", "not there", NOBODY, missing=True), Outcome.WRONG, "not there", "apply -f"),
        (results.check_configuration("", ""), Outcome.OK, "defaults", ""),
        (results.check_configuration("s.yaml", ""), Outcome.OK, "s.yaml is read", ""),
        (results.check_configuration("s.yaml", "s.yaml: gone"), Outcome.WRONG, "gone", "beside policy.yaml"),
        (results.check_guards(()), Outcome.OK, "no queries", ""),
        (results.check_guards((GOOD,)), Outcome.OK, "1 guard good", ""),
        (
            results.check_guards((GOOD, GuardAnswer("slow", Verdict.BAD, "1 series"))),
            Outcome.WRONG,
            "guard slow: 1 series",
            "no step begins",
        ),
        (
            results.check_guards((GuardAnswer("slow", Verdict.ERROR, "Prometheus answered 400: parse error"),)),
            Outcome.WRONG,
            "parse error",
            "or the query",
        ),
        (
            results.check_guards((GuardAnswer("slow", Verdict.ERROR, "no answer", away=True),)),
            Outcome.UNKNOWN,
            "no answer",
            "in the controller's pod",
        ),
        (results.check_budgets(()), Outcome.OK, "every PodDisruptionBudget", ""),
        (
            results.check_budgets(
                (
                    finding(FindingKind.BUDGET_ALWAYS_ZERO, "PodDisruptionBudget shop/web", "is 0. Allow at least one"),
                    finding(FindingKind.TOO_LARGE, "Pod x", "…"),
                )
            ),
            Outcome.WRONG,
            "PodDisruptionBudget shop/web: no pod can ever be evicted",
            "Allow at least one",
        ),
        (results.check_reach({}, 1), Outcome.OK, "1 workload with", ""),
        (results.check_reach({"b": 1, "a": 2}, 5), Outcome.NOTE, "3 of 5 workloads", "eligibility.namespaces"),
        (results.check_others((), ""), Outcome.OK, "no second controller", ""),
        (results.check_others((), "forbidden"), Outcome.UNKNOWN, "forbidden", "administrator"),
        (results.check_others((DESCHEDULER,), ""), Outcome.WRONG, "CronJob kube-system/descheduler", "kubectl patch"),
        (results.check_monitoring(served=True), Outcome.OK, "are served", ""),
        (results.check_monitoring(served=False), Outcome.NOTE, "not served", "rules.yaml"),
        (results.check_clocks(timedelta(0), timedelta(0)), Outcome.OK, "agree", ""),
        (
            results.check_clocks(MINUTES, -MINUTES),
            Outcome.WRONG,
            "this machine's is 10m behind it; the leader's",
            "NTP",
        ),
        (results.check_certificate(None, NOW), Outcome.NOTE, "not verified", ""),
        (results.check_certificate(NOW + timedelta(days=15), NOW), Outcome.OK, "ends at", ""),
        (results.check_certificate(NOW + timedelta(days=13), NOW), Outcome.WRONG, "ends at", "renew it"),
    ],
)
def test_what_a_check_says(result: Result, outcome: Outcome, said: str, remedy: str) -> None:
    assert (result.outcome, said in result.text, remedy in result.remedy) == (outcome, True, True)
    assert bool(result.remedy) or outcome in {Outcome.OK, Outcome.NOTE}, "a fault has a way out"


def test_the_screen_has_a_line_for_each_and_counts_what_is_wrong() -> None:
    """The way out stands below the line, and not below what is right."""
    made = [
        Result("clocks", Outcome.OK, "they agree", "nothing to do"),
        Result("policy", Outcome.WRONG, "it is refused", "correct it"),
        Result("guards", Outcome.UNKNOWN, "no answer", "ask from there"),
    ]
    document = check_document(made)
    assert document.wrong
    assert check_text(document).splitlines() == [
        "ok clocks: they agree",
        "!! policy: it is refused",
        "   correct it",
        "?? guards: no answer",
        "   ask from there",
        "",
        "1 of 3 checks wrong, 1 not known.",
    ]
    assert all(len(line) <= 20 for line in check_text(document, TextLayout(width=20)).splitlines()[:-2])
    fine = check_document(made[:1])
    assert (fine.wrong, check_text(fine).splitlines()[-1]) == (False, "1 check, nothing wrong.")


def test_times_are_utc() -> None:
    end = datetime(2026, 2, 1, 12, tzinfo=UTC)
    assert results.check_certificate(end, NOW).text == "the API server's ends at 2026-02-01 12:00:00Z"
