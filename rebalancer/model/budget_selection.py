"""Which pods a PodDisruptionBudget selects, and which budgets select a pod.

Most clusters have a budget for each workload. The cost of comparing each budget with each pod of its namespace grows
with the product of their numbers: 2,500 budgets over 150,000 pods took ten times as long as all the rest of the
planning. So selectors are compared with distinct label sets, and only with label sets that have one of the values that
the selector requires.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.labels import Labels, LabelSelector, Operator
from rebalancer.model.pods import Pod

_Entry = tuple[int, LabelSelector, DisruptionBudget]
"""The index of a budget among all of its namespace, its selector, the budget."""

_ANY = ("", "")
"""Stands for a label if a selector requires no value; no real label has an empty key."""


class BudgetSelection:
    """Pods and budgets by namespace, matched by the rules of policy/v1: the null selector selects none, `{}` all."""

    def __init__(self, pods: Mapping[str, Sequence[Pod]], budgets: Mapping[str, Sequence[DisruptionBudget]]) -> None:
        self._all_pods = pods
        self._all_budgets = budgets
        self._indexes: dict[str, _Index] = {}
        self._selecting: dict[tuple[str, Labels], Sequence[DisruptionBudget]] = {}
        self._pods: dict[str, Mapping[DisruptionBudget, Sequence[Pod]]] = {}

    def budgets_in(self, namespace: str) -> Sequence[DisruptionBudget]:
        return self._all_budgets.get(namespace, ())

    def budgets_of(self, pod: Pod) -> Sequence[DisruptionBudget]:
        """Return the budgets that select a pod, in their order."""
        return self.selecting(pod.namespace, pod.labels)

    def selecting(self, namespace: str, labels: Labels) -> Sequence[DisruptionBudget]:
        """Return the budgets that select the pods of a namespace with these labels, in their order."""
        budgets = self._all_budgets.get(namespace)
        if budgets is None:
            return ()
        key = (namespace, labels)
        known = self._selecting.get(key)
        if known is None:
            index = self._indexes.get(namespace)
            if index is None:
                index = self._indexes[namespace] = _Index(budgets)
            known = self._selecting[key] = tuple(index.selecting(labels))
        return known

    def pods_of(self, budget: DisruptionBudget) -> Sequence[Pod]:
        """Return the pods that a budget selects, in their order."""
        pods = self._pods.get(budget.namespace)
        if pods is None:
            pods = self._pods[budget.namespace] = self._select(budget.namespace)
        return pods.get(budget, ())

    def _select(self, namespace: str) -> Mapping[DisruptionBudget, Sequence[Pod]]:
        pods: dict[DisruptionBudget, list[Pod]] = {}
        for pod in self._all_pods.get(namespace, ()):
            for budget in self.budgets_of(pod):
                pods.setdefault(budget, []).append(pod)
        return pods


class _Index:
    """The budgets of one namespace, each under that required label which the fewest budgets require."""

    def __init__(self, budgets: Sequence[DisruptionBudget]) -> None:
        self._requiring: dict[tuple[str, str], list[_Entry]] = {}
        selectors = [budget.selector for budget in budgets if budget.selector is not None]
        common = Counter(label for selector in selectors for labels in _required(selector) for label in labels)
        for position, budget in enumerate(budgets):
            if budget.selector is not None:
                required = _required(budget.selector)
                rarest = min(required, key=lambda labels: sum(common[label] for label in labels), default=[_ANY])
                for label in rarest:
                    self._requiring.setdefault(label, []).append((position, budget.selector, budget))

    def selecting(self, labels: Labels) -> Iterator[DisruptionBudget]:
        """Yield the budgets that select a label set, in their order."""
        candidates = [*self._requiring.get(_ANY, ())]
        for label in labels.items():
            candidates += self._requiring.get(label, ())
        for _, selector, budget in sorted(candidates, key=itemgetter(0)):
            if selector.matches(labels):
                yield budget


def _required(selector: LabelSelector) -> Sequence[Sequence[tuple[str, str]]]:
    """Return lists of labels; a label set that the selector matches has exactly one label of each list."""
    return [
        [(requirement.key, value) for value in requirement.values]
        for requirement in selector.requirements
        if requirement.operator is Operator.IN
    ]
