"""The outlook of a step that was searched on the real nodes."""

from collections.abc import Iterable

from rebalancer.model.moves import Target
from rebalancer.scheduling.view import View


class NodesOutlook:
    """Replacements may be placed on `nodes`.

    A key is left out if these nodes have more than `most_domains` domains, or a node has no domain.
    """

    def __init__(self, keys: Iterable[str], nodes: frozenset[str], view: View, most_domains: int) -> None:
        self._keys = tuple(dict.fromkeys(keys))
        self._nodes = nodes
        self._view = view
        self._most_domains = most_domains

    def targets(self) -> tuple[Target, ...]:
        """Return for each key the domains of the nodes."""
        targets = []
        for key in self._keys:
            values = self._view.nodes.values(key)
            domains = {values[node] for node in self._nodes if node in values}
            if len(domains) <= self._most_domains and self._nodes <= values.keys():
                targets.append(Target(key, tuple(sorted(domains))))
        return tuple(targets)

    def landings(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return which of these nodes may take replacements."""
        return self._nodes & nodes

    def counts(self) -> None:
        """Return None, since it is not known which of the nodes the scheduler picks."""
        return
