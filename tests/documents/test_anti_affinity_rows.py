"""A violated term of podAntiAffinity has a row on the page: who shares which domain, and why it is not repaired."""

import re
from dataclasses import replace
from html import unescape

import pytest
from msgspec import structs

from rebalancer.adapters.web.page import page_routes
from rebalancer.adapters.web.routes import Request
from rebalancer.controller.loop import step
from rebalancer.controller.state import CycleDue
from rebalancer.controller.status import status_document
from rebalancer.documents.overview import RowState
from rebalancer.documents.page import PageDocument
from rebalancer.model.affinity import TermKind
from rebalancer.policy import AntiAffinity, Mode
from tests.build import a_cluster, a_state, away_from, with_anti_affinity
from tests.controller.simulated import eager
from tests.planning.anti_affinity.test_preferred import acting, own
from tests.reports import page_of


def shown(*kinds: TermKind, on: dict[str, int]) -> PageDocument:
    """Return the page after a cycle in which pods of batch keep web away, which the policy acts on or not."""
    builder = a_cluster("abc", 1, {"a-1": 1, "b-1": 1})
    builder.deployment("batch", on=on)
    snapshot = with_anti_affinity(builder.snapshot(), {"batch": [away_from("web")]})
    policy = eager().model_copy(update={"mode": Mode.OBSERVE, "anti_affinity": AntiAffinity(act_on=kinds)})
    state, _ = step(a_state(policy, snapshot.taken_at), CycleDue(snapshot=snapshot), snapshot.taken_at)
    return page_of(state)


@pytest.mark.parametrize(
    ("kinds", "state", "reason"), [((), RowState.REPORTED, "Excluded"), ((TermKind.REQUIRED,), RowState.WAITING, None)]
)
def test_it_has_a_row_of_the_workload_that_declares_it(
    kinds: tuple[TermKind, ...], state: RowState, reason: str | None
) -> None:
    page = shown(*kinds, on={"a-1": 3})
    assert page.overview is not None
    row = next(row for row in page.overview.rows if row.of.startswith("batch"))
    (term,) = row.anti_affinity
    assert (row.state, row.above, term.reason, term.counts) == (state, 1, reason, {"a-1": 4})
    assert term.bounds["a-1"].max == 3
    assert page.overview.figures.violated == 1
    moment = a_cluster("a", 1).snapshot().taken_at
    routes = page_routes(lambda *_, **__: page, local=False, now=lambda: moment)
    text = unescape(re.sub("<[^>]*>", " ", routes["/workloads"](Request({})).body.decode()))
    assert "required anti-affinity over node to pods that match app=web" in text
    assert ("antiAffinity.actOn does not list Required" in text) == (not kinds)


def test_one_that_is_satisfied_has_none() -> None:
    page = shown(on={"c-1": 3})
    assert page.overview is not None
    assert not any(row.anti_affinity for row in page.overview.rows)
    assert page.overview.figures.violated == 0


def test_a_preferred_term_that_no_budget_lets_repair_is_counted_where_it_is_listed() -> None:
    """It cannot be repaired: status, figures and rows agree. Once the policy does not act on it, none has it."""
    snapshot = own([3, 0]).snapshot()
    never = a_cluster("a", 1, {"a-1": 3})
    never.budget("web", max_unavailable=0)
    (budget,) = never.snapshot().budgets
    budget = structs.replace(budget, namespace="x", selector=snapshot.workloads[0].selector)
    for kinds, number in (("Preferred", 1), ("Required", 0)):
        policy = acting(kinds)
        state, _ = step(
            a_state(policy, snapshot.taken_at),
            CycleDue(snapshot=replace(snapshot, budgets=(budget,))),
            snapshot.taken_at,
        )
        status, page = status_document(state, "one", "policy.yaml"), page_of(state)
        assert [wait.stuck for wait in status.waits] == [True] * number
        assert page.overview is not None
        figures = page.overview.figures
        assert (figures.unrepairable, figures.violated, figures.violated_anti_affinity) == (number, number, number)
        assert [len(row.anti_affinity) for row in page.overview.rows if row.state is RowState.UNREPAIRABLE] == [
            1
        ] * number
