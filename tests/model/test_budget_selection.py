"""The index of budgets answers as if each budget had been compared with each pod."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.labels import Labels, LabelSelector, Operator, SelectorRequirement
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS, VALUES = st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["shop", "pay"])
REQUIREMENTS = st.builds(
    SelectorRequirement,
    KEYS,
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.sets(VALUES, min_size=1).map(lambda values: tuple(sorted(values))),
) | st.builds(SelectorRequirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]))
SELECTORS = st.none() | st.lists(REQUIREMENTS, max_size=3).map(lambda drawn: LabelSelector.of(None, drawn))
PODS = st.lists(st.tuples(NAMESPACES, st.dictionaries(KEYS, VALUES).map(Labels)), max_size=8)


@given(PODS, st.lists(st.tuples(NAMESPACES, SELECTORS), max_size=5))
def test_it_answers_as_comparing_each_with_each(
    pods: list[tuple[str, Labels]], budgets: list[tuple[str, LabelSelector | None]]
) -> None:
    """Any selectors: several requirements, none at all, the null selector; in both directions, in order."""
    snapshot = Snapshot(
        taken_at=NOW,
        pods=[
            Pod(namespace=namespace, name=f"p{number}", uid=f"p{number}", labels=labels, created=NOW)
            for number, (namespace, labels) in enumerate(pods)
        ],
        budgets=[
            DisruptionBudget(namespace=namespace, name=f"b{number}", selector=selector)
            for number, (namespace, selector) in enumerate(budgets)
        ],
    )

    def selects(budget: DisruptionBudget, pod: Pod) -> bool:
        matches = budget.selector is not None and budget.selector.matches(pod.labels)
        return budget.namespace == pod.namespace and matches

    selected = snapshot.budget_selection
    for pod in snapshot.pods:
        assert list(selected.budgets_of(pod)) == [budget for budget in snapshot.budgets if selects(budget, pod)]
    for budget in snapshot.budgets:
        assert list(selected.pods_of(budget)) == [pod for pod in snapshot.pods if selects(budget, pod)]
