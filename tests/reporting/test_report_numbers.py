"""One set of numbers: plan, report, explanations, metrics, status and the page never disagree about one cycle."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from html import unescape
from math import inf
from typing import Any

from hypothesis import given
from msgspec import structs
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rebalancer.account.numbers import plan_numbers
from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.routes import Request
from rebalancer.controller.account import find_account
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.status import status_document
from rebalancer.documents.document import to_json
from rebalancer.documents.explanation import ExplanationDocument, explain_pod, explain_workload
from rebalancer.documents.overview import WorkloadRow
from rebalancer.documents.page import PageDocument
from rebalancer.documents.phrases import workload_names
from rebalancer.documents.report import ReportedConstraint, ReportedLimit
from rebalancer.model.words import plural, short_key
from rebalancer.reporting.text.report import report_text
from rebalancer.reporting.text.status import status_text
from tests.drawing import examples
from tests.reporting.test_plan_numbers import check_plan, numbers_in, states
from tests.reports import cycle_report, export, page_of, state_of, view_of

Row = Mapping[str, Any]


class Shown:
    """What the page shows next, and its time."""

    page: PageDocument
    now: datetime


SHOWN = Shown()
ROUTES = page_routes(lambda *_, **__: SHOWN.page, local=False, now=lambda: SHOWN.now)
"""Made once: compiling the page's template takes longer than all checks of a cycle."""


def counts_in(text: str) -> dict[str, int]:
    """Return the counts that a text lists, such as `a:3 b:0`."""
    return {domain: int(count) for domain, count in re.findall(r"([\w-]+):(\d+)", text)}


def held_in(text: str) -> tuple[int, ...]:
    """Return what a text says of a domain, such as `holds 3 of 6 (50%)`; () if it says nothing."""
    match = re.search(r"holds (\d+) of (\d+) \((\d+)%\)", text)
    return tuple(map(int, match.groups())) if match is not None else ()


def held_by(limit: Row) -> tuple[int, int, int]:
    largest = limit["largest"]
    return largest["count"], limit["total"], int(f"{largest['share']:.0%}"[:-1])


@given(states())
@examples(500)
def test_report_explanations_metrics_status_and_page_agree(cycle: Cycle) -> None:
    """Whatever is violated, blocked, excluded or pending: each number is the same wherever it appears."""
    check_plan(cycle)
    check_text(cycle)
    check_metrics(cycle)
    check_explanations(cycle)
    check_page(cycle)


def check_text(cycle: Cycle) -> None:
    """Check the report as text against its JSON: sums, skews, counts of each domain, shares."""
    report = cycle_report(cycle)
    document = json.loads(to_json(report))
    text = report_text(report, wide=True)
    constraints, limits = document["constraints"], document["limits"]
    broken, over = (sum(row["state"] != "Satisfied" for row in rows) for rows in (constraints, limits))
    head = text.splitlines()[0]
    sums = re.findall(r"(\d+) of (\d+) \w+ not satisfied", head)
    assert sums == [(str(one), str(len(of))) for one, of in ((broken, constraints), (over, limits)) if one]
    for one, of, noun in ((broken, constraints, "constraint"), (over, limits, "limit")):
        whole = (
            f"all {plural(len(of), noun)} satisfied" if len(of) > 1 else f"1 {noun} satisfied" if of else f"no {noun}"
        )
        assert bool(one) != (whole in head)
    shape = r"^(\S+)\s+(.+\))\s+(\w+)\s+(\d+)\s+(\d+)\s+(?:hard|soft \(\w+\))\s+(\w+)\s+(.*)$"
    rows = Counter(
        (*match[:3], int(match[3]), int(match[4]), match[5], frozenset(counts_in(match[6]).items()))
        for match in re.findall(shape, text, re.MULTILINE)
    )
    assert rows == Counter(
        (
            row.namespace,
            workload_names(row.workloads),
            short_key(row.topology_key),
            row.max_skew,
            row.skew,
            row.state,
            frozenset(row.counts.items()),
        )
        for row in report.constraints
    )
    shown = [held_in(line) for line in text.splitlines() if line.startswith("all/zone")]
    assert shown == [held_by(limit) for limit in limits if limit["state"] != "Satisfied"]


def check_metrics(cycle: Cycle) -> None:
    """Check what Prometheus reads: skews and states by workload, shares, headrooms, refusals, the minimum."""
    report = json.loads(to_json(cycle_report(cycle)))
    state = state_of(cycle)
    metrics = export(view_of(state))
    scraped: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            scraped.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    skews, states_now = {}, set()
    for row in report["constraints"]:
        for workload in row["workloads"]:
            labels = {
                "namespace": row["namespace"],
                "workload_kind": workload["kind"],
                "workload": workload["name"],
                "topology_key": row["topologyKey"],
                "when_unsatisfiable": row["whenUnsatisfiable"],
            }
            skews[frozenset(labels.items())] = row["skew"]
            states_now.add(frozenset((labels | {"state": row["state"]}).items()))
    assert scraped.get("rebalancer_constraint_skew", {}) == skews
    now = {labels for labels, value in scraped.get("rebalancer_constraint_state", {}).items() if value}
    assert now == states_now
    shares, headrooms = {}, {}
    for limit in report["limits"]:
        key = frozenset(
            {
                "group": limit["group"],
                "limit": limit["limit"],
                "namespace": limit["namespace"],
                "key": "/".join(limit["key"].values()),
                "topology_key": limit["topologyKey"],
            }.items()
        )
        headrooms[key] = limit["headroom"]
        shares[key] = limit["largest"]["share"]
    assert scraped.get("rebalancer_limit_headroom", {}) == headrooms
    assert scraped.get("rebalancer_limit_share_ratio", {}) == shares
    status = status_document(state, "one", "policy.yaml")
    refusals = {dict(labels)["reason"]: value for labels, value in scraped["rebalancer_refusals"].items() if value}
    assert refusals == status.refusals
    assert scraped["rebalancer_minimum_evictions"][frozenset()] == status.plan.minimum


def check_explanations(cycle: Cycle) -> None:
    """Check the explanations of each workload and of one of its pods: skews, counts, shares."""
    report = cycle_report(cycle)
    for group in cycle.assessment.groups:
        for workload in group.spread.workloads:
            own = [row for row in report.constraints if any(one.name == workload.name for one in row.workloads)]
            limits = [
                json.loads(to_json(limit))
                for limit in report.limits
                if f"Deployment/{workload.name}" in limit.key.values()
            ]
            pod = next(pod for pod in cycle.snapshot.pods if pod.labels["app"] == workload.name)
            for explained in (
                explain_workload(workload, cycle.assessment, cycle.plan, cycle.snapshot),
                explain_pod(pod, cycle.view, cycle.assessment, cycle.plan),
            ):
                assert skews_in(explained) == {(row.topology_key, row.max_skew): row.skew for row in own}
                for row in own:
                    (known,) = (one for one in explained.path if one.question.startswith(f"Is {row.topology_key} ("))
                    assert [*counts_in(known.evidence).items()] == [*row.counts.items()]
                evidence = [answer.evidence for answer in explained.path if answer.question.startswith("Is limit")]
                assert [held_in(text) for text in evidence] == [held_by(limit) for limit in limits]


def skews_in(explained: ExplanationDocument) -> dict[tuple[str, int], int]:
    """Return the skews that an explanation states, by key and maxSkew."""
    skews = {}
    for answer in explained.path:
        question = re.match(r"Is (\S+) \(maxSkew (\d+), .*\) satisfied\?", answer.question)
        skew = re.search(r"skew (\d+)", answer.answer)
        if question is not None and skew is not None:
            skews[question[1], int(question[2])] = int(skew[1])
    return skews


def check_page(cycle: Cycle) -> None:
    """Check the page: its JSON is report, totals and status; a browser shows the same numbers, and so does `status`."""
    state = state_of(cycle)
    made = structs.replace(cycle.plan, fates=find_account(state, cycle).fates)
    page, numbers = page_of(state), plan_numbers(made)
    report = cycle_report(cycle)
    SHOWN.page, SHOWN.now = page, cycle.context.now
    document = json.loads(ROUTES["/status.json"](Request({})).body)
    assert document["report"] == json.loads(to_json(report))
    totals = document["totals"]
    assert [totals[part] for part in ("now", "waiting", "later", "blocked", "lowerBound")] == [
        numbers.now,
        numbers.waiting,
        numbers.later,
        numbers.blocked,
        numbers.lower_bound,
    ]
    assert document["status"]["plan"] == {
        "evictions": numbers.evictions,
        "minimum": numbers.lower_bound,
        "uncounted": numbers.uncounted,
    }
    figures = document["overview"]["figures"]
    broken = {"Violated", "Infeasible", "Unfixable"}
    assert (figures["constraints"], figures["limits"]) == (len(report.constraints), len(report.limits))
    assert figures["violatedConstraints"] == sum(row.state in broken for row in report.constraints)
    assert figures["violatedLimits"] == sum(row.state in broken for row in report.limits)
    within = sum(row.state == "Infeasible" and row.headroom >= 0 for row in report.limits)
    assert figures["unsatisfiableLimits"] == within
    assert (figures["waiting"], figures["blocked"]) == (numbers.evictions, numbers.blocked)
    assert figures["moving"] == len(state.memory.in_flight)
    html = ROUTES["/workloads"](Request({})).body.decode()
    drawn = {bar for sentence in re.findall("<desc>([^<]*)</desc>", html) for bar in unescape(sentence).split("; ")}
    rows = [rule for row in page.overview.rows for rule in first_rules(row)] if page.overview is not None else []
    assert len(rows) == min(20, document["overview"]["selected"])
    for rule in rows:
        for domain, count in rule.counts.items():
            most = rule.bounds[domain].max
            said = f"{domain} holds {count}" if most is None else f"{domain} holds {count}, at most {most}"
            assert len(rule.counts) > 12 or any(bar == said or bar.startswith(f"{said}, ") for bar in drawn), said
    plan = unescape(re.sub("<[^>]*>", " ", ROUTES["/"](Request({})).body.decode().partition('id="plan"')[2]))
    parts = ("now", "waiting", "later", "blocked")
    assert numbers_in(plan.partition("\n")[0]) == {
        part: getattr(numbers, part) for part in parts if getattr(numbers, part)
    }
    text = status_text(page.status, cycle.context.now)
    shown = re.search(r"^Plan: (\d+) eviction", text, re.MULTILINE)
    assert (int(shown[1]) if shown is not None else 0) == numbers.evictions


def first_rules(row: WorkloadRow) -> Iterable[ReportedConstraint | ReportedLimit]:
    """Return the rule of a row whose bars are drawn: the first that is violated, limits first, or has least room."""
    every: list[ReportedConstraint | ReportedLimit] = [*row.limits, *row.constraints]
    broken = [rule for rule in every if rule.state in {"Violated", "Infeasible", "Unfixable"}]
    return (broken or sorted(every, key=lambda rule: inf if rule.room is None else rule.room))[:1]
