"""What a browser shows, number by number, beside what `explain`, `plan` and `status` write with `-o json`."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html import unescape
from operator import itemgetter
from typing import Any

from hypothesis import given
from msgspec import structs

from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.routes import Request, Route
from rebalancer.controller.account import find_account
from rebalancer.controller.cycle import Cycle
from rebalancer.documents.document import to_json
from rebalancer.documents.explanation import explain_workload
from rebalancer.documents.phrases import unsatisfiable_text
from rebalancer.documents.plan import plan_document
from rebalancer.model.words import constraint_name, limit_name, plural, shorten_keys
from tests.drawing import examples
from tests.reporting.test_plan_numbers import numbers_in, states
from tests.reporting.test_report_numbers import counts_in, held_in
from tests.reports import page_of, state_of

Row = Mapping[str, Any]
Routes = Mapping[str, Route]

CONSTRAINT = re.compile(r"Is (\S+) \(maxSkew (\d+), (hard|soft)[^)]*\) satisfied\?")
LIMIT = re.compile(r"Is limit (\S+) \((.*) per (\S+), [^,]*\) satisfied\?")
ROW = re.compile(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td></tr>', re.DOTALL)


@given(states())
@examples(100)
def test_the_page_says_what_explain_plan_and_status_say(cycle: Cycle) -> None:
    """Of each rule counts, skew or share, and state; the proof, the reason, the steps; the figures of all."""
    state = state_of(cycle)
    routes = page_routes(
        lambda selection, **_: page_of(state, selection=selection), local=False, now=lambda: cycle.context.now
    )
    made = structs.replace(cycle.plan, fates=find_account(state, cycle).fates)
    plan = json.loads(to_json(plan_document(made, cycle.snapshot)))
    for group in cycle.assessment.groups:
        for workload in group.spread.workloads:
            explained = json.loads(to_json(explain_workload(workload, cycle.assessment, cycle.plan, cycle.snapshot)))
            own = f"{workload.kind}/{workload.name}"
            view = html_of(routes, "/workload", namespace=workload.namespace, workload=own)
            assert Counter(rules_of(view)) == Counter(rules_in(explained))
            check_reasons(view, explained)
            assert steps_of(view) == steps_in(plan, own)
    overview = html_of(routes, "/")
    assert {*steps_of(overview)} <= {*steps_in(plan)}
    check_figures(overview, json.loads(to_json(page_of(state).status)), plan)


def html_of(routes: Routes, path: str, **query: str) -> str:
    return routes[path](Request(query)).body.decode()


def text_of(html: str) -> str:
    return " ".join(unescape(re.sub("<[^>]*>", " ", html)).split())


def section_of(html: str, name: str) -> str:
    return html.partition(f'id="{name}"')[2].partition("</section>")[0]


def rules_of(view: str) -> Iterator[tuple[str, str, frozenset[Any]]]:
    """Yield the name of each rule of a view, its state with its number, and its pods by domain as its bars say them.

    Of a limit, the domain that holds the most.
    """
    for name, cell, state in re.findall(
        r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td></tr>', view, re.DOTALL
    ):
        (sentence,) = re.findall("<desc>(.*?)</desc>", cell, re.DOTALL)
        counts = {domain: int(count) for domain, count in re.findall(r"([\w-]+) holds (\d+)", unescape(sentence))}
        words = re.sub(", at most .*|, headroom .*", "", text_of(state))
        limit = text_of(name).startswith("limit ")
        yield text_of(name), words, frozenset([max(counts.items(), key=itemgetter(1))[1:]] if limit else counts.items())


def rules_in(explained: Row) -> Iterator[tuple[str, str, frozenset[Any]]]:
    """Yield the same of an explanation."""
    for one in explained["path"]:
        state = re.split("[:;]", one["answer"])[0]
        if (asked := CONSTRAINT.fullmatch(one["question"])) is not None:
            skew = re.search(r"skew \d+", one["answer"])
            name = constraint_name(asked[1], int(asked[2]), hard=asked[3] == "hard")
            assert skew is not None
            yield name, f"{state} {skew[0]}", frozenset(counts_in(one["evidence"]).items())
        elif (asked := LIMIT.fullmatch(one["question"])) is not None:
            count, total, percent = held_in(one["evidence"])
            name = limit_name(asked[1], asked[2], asked[3])
            yield name, f"{state} {count} of {total} ({percent}%)", frozenset([(count,)])


def check_reasons(view: str, explained: Row) -> None:
    """Check that the view of what is to be repaired has the proof of the minimum, and why it is not repaired.

    Of a workload that is not violated, only softly, or by a limit that is infeasible by itself, an explanation tells it
    of those with which it is planned; the view has what makes such a limit infeasible.
    """
    why = text_of(section_of(view, "why"))
    broken = {name for name, words, _ in rules_of(view) if not (words.startswith("Satisfied") or "(soft)" in name)}
    alone = {one["evidence"] for one in explained["path"] if one["answer"] == "Infeasible" and "; " in one["evidence"]}
    if len(broken) == len(alone):
        assert all(shorten_keys(evidence) in why for evidence in alone)
        return
    answers = {one["question"]: one for one in explained["path"]}
    for question, part in (("Why not fewer?", "answer"), ("Why is it not repaired now?", "evidence")):
        if question in answers:
            assert shorten_keys(" ".join(answers[question][part].split())) in why


def steps_of(html: str) -> list[tuple[str, str]]:
    """Return the pods that a page moves, each with the number of its step."""
    plan = section_of(html, "plan")
    return [
        (number, pod)
        for number, step in re.findall(r'<li><span class="step [^"]*">(.*?)</span>(.*?)</li>', plan, re.DOTALL)
        for pod in re.findall(r"<p><bdi>(\S+)</bdi> <span", step)
    ]


def steps_in(plan: Row, workload: str = "") -> list[tuple[str, str]]:
    """Return the pods that a plan moves, or those of one workload."""
    return [
        (str(one["step"]), f"{one['namespace']}/{one['pod']}")
        for part in ("evictions", "waiting")
        for one in plan[part]
        if workload in {"", f"{one['workload']['kind']}/{one['workload']['name']}"}
    ]


def check_figures(overview: str, status: Row, plan: Row) -> None:
    """Check the four figures, the sums of the plan and the refusals."""
    figures, totals = status["figures"], plan["totals"]
    shown = re.findall(r'<span class="number">([\d,]+)</span></a>(?:<p class="quiet">(.*?)</p>)?', overview, re.DOTALL)
    assert [int(number.replace(",", "")) for number, _ in shown] == [
        figures["violated"],
        figures["moving"],
        figures["waiting"],
        figures["unrepairable"],
    ]
    within = unsatisfiable_text(figures["unsatisfiableLimits"])
    assert text_of(shown[0][1]) == (
        f"of {plural(figures['workloads'], 'workload')}; "
        f"{figures['violatedConstraints']} of {plural(figures['constraints'], 'constraint')}, "
        f"{figures['violatedLimits']} of {plural(figures['limits'], 'limit')}{f' ({within})' if within else ''}"
    )
    assert figures["waiting"] == status["plan"]["evictions"] == totals["evictions"]
    assert status["plan"]["minimum"] == totals["lowerBound"]
    assert figures["blocked"] == totals["blocked"]
    section = section_of(overview, "plan")
    sums = numbers_in(section)
    assert all(totals[name] == number for name, number in sums.items())
    assert {name for name in ("now", "waiting", "later", "blocked") if totals[name]} == sums.keys()
    refused = dict(re.findall(r"<li>(\w+): (\d+)</li>", section))
    assert {reason: int(number) for reason, number in refused.items()} == status["refusals"]
