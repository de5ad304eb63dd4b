"""Guards in a policy: what is wrong with them is said with line, field and what to write instead."""

from datetime import timedelta

import pytest

from rebalancer.policy import Expect, Guards, PolicyError, load_policy, load_team_policy

HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: RebalancePolicy\n"
URL = "  prometheus: {url: 'http://prometheus:9090'}\n"


def problem_of(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        load_policy((HEAD + text).encode(), source="policy.yaml")
    (problem,) = caught.value.problems
    return f"{problem.line} {problem.field}: {problem.message}"


def test_the_default_asks_nothing() -> None:
    policy = load_policy(HEAD.encode(), source="policy.yaml")
    assert policy.guards == Guards()
    assert policy.guards.prometheus.url is None


def test_a_guard_has_defaults() -> None:
    text = HEAD + "guards:\n" + URL + "  queries:\n  - {name: a, query: errors > 5, present: up == 1}\n"
    (guard,) = load_policy(text.encode(), source="policy.yaml").guards.queries
    assert (guard.expect, guard.for_) == (Expect.EMPTY, timedelta(seconds=30))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "guards:\n  queries:\n  - {name: a, query: x, present: up}\n",
            "3 guards: expected prometheus.url, where the queries are asked, such as https://prometheus.monitoring:9090",
        ),
        (
            "guards:\n  prometheus:\n    url: prometheus.monitoring:9090/api/v1/query\n",
            (
                '5 guards.prometheus.url: found "prometheus.monitoring:9090/api/v1/query"; expected the address of a '
                "Prometheus such as https://prometheus.monitoring:9090, without a query or a password; did you mean "
                "http://prometheus.monitoring:9090?"
            ),
        ),
        (
            "guards:\n  prometheus:\n    url: http://a:65536\n",
            (
                '5 guards.prometheus.url: found "http://a:65536"; expected the address of a Prometheus such as '
                "https://prometheus.monitoring:9090, without a query or a password"
            ),
        ),
        (
            "guards:\n  prometheus:\n    url: 9090\n",
            (
                "5 guards.prometheus.url: found 9090; expected the address of a Prometheus such as "
                "https://prometheus.monitoring:9090, without a query or a password"
            ),
        ),
        (
            "guards:\n  prometheus: {url: 'http://a', tokenFile: /token}\n",
            (
                "4 guards.prometheus: expected a url that begins with https:// beside tokenFile: http would send "
                "the token in clear"
            ),
        ),
        (
            "guards:\n  prometheus: {url: 'http://a', caFile: /ca.crt}\n",
            "4 guards.prometheus: expected a url that begins with https:// beside caFile",
        ),
        ("guards:\n  prometheus: {timeout: 31s}\n", '4 guards.prometheus.timeout: found "31s"; expected at most 30s'),
        (
            f"guards:\n{URL}  queries:\n  - name: a\n    query: x\n",
            (
                "6 guards.queries[0]: expected `present` beside expect: Empty, a query that returns something "
                "while the data is there, such as 'up{job=\"web\"} == 1'"
            ),
        ),
        (
            f"guards:\n{URL}  queries:\n  - {{name: a, query: x, present: up, expect: NotEmpty}}\n",
            (
                "6 guards.queries[0]: expected no `present` beside expect: NotEmpty, whose query must return something "
                "itself"
            ),
        ),
        (
            f"guards:\n{URL}  queries:\n  - {{name: a, query: '', present: up}}\n",
            '6 guards.queries[0].query: found ""; expected a query in PromQL, at most 4,000 characters',
        ),
        (
            f"guards:\n{URL}  queries:\n  - {{name: a, query: x, present: up, for: 2h}}\n",
            '6 guards.queries[0].for: found "2h"; expected at most 1h',
        ),
        (
            f"guards:\n{URL}  queries: [{{name: a, query: x, present: up}}, {{name: a, query: y, present: up}}]\n",
            "5 guards.queries: found a list; expected names that differ, not a twice",
        ),
        (
            f"guards:\n{URL}  queries: [{', '.join(f'{{name: a{n}, query: x, present: up}}' for n in range(21))}]\n",
            "5 guards.queries: found a list; expected at most 20 queries, not 21",
        ),
        ("budgets: {canary: 11}\n", "3 budgets.canary: found 11; expected at most 10"),
    ],
)
def test_a_mistake_is_named_with_line_and_field(text: str, problem: str) -> None:
    assert problem_of(text) == problem


@pytest.mark.parametrize("section", ["guards: {}", "budgets: {canary: 1}"])
def test_a_team_has_no_guards(section: str) -> None:
    text = f"apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\n{section}\n"
    with pytest.raises(PolicyError, match="unknown field"):
        load_team_policy(text.encode(), source="policy.yaml")
