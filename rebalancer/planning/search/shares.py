"""Each namespace's share in the searches of one plan: no team's workloads wait because of another team's objects."""

from collections import Counter, defaultdict
from collections.abc import Collection

from rebalancer.model.facts import NOT_BY_ITSELF, End, Refusal
from rebalancer.model.reasons import Reason
from rebalancer.planning.search.limits import SearchBudget


class PlanTooCostly(Refusal):
    """Planning a component takes more than what is left of its namespace's share in this plan."""

    reason = Reason.NAMESPACE_TOO_COSTLY
    namespace: str
    cells: int
    left: int
    share: int

    def _end(self) -> End:
        never = self.cells > self.share
        return NOT_BY_ITSELF if never else End(event="when it is its turn, in one of the next minutes")

    def __str__(self) -> str:
        size = f"its size (groups of identical pods times nodes) is {self.cells:,}"
        smaller = "To make it smaller, let fewer workloads count each other's pods"
        if self.cells > self.share:
            return f"too large to plan: {size}, and a plan handles {self.share:,} for each namespace. {smaller}"
        are = "is" if self.left == 1 else "are"
        return (
            f"too large to plan now: {size}. Of the {self.share:,} that a plan handles for each namespace, "
            f"{self.left:,} {are} left for {self.namespace}, and workloads of other namespaces go first. {smaller}"
        )


class CellShares:
    """How many cells of integer programs each namespace has left; a component takes cells once, even if built again."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._used = Counter[str]()
        self._taken: set[str] = set()

    def take(self, namespace: str, component: str, cells: int) -> PlanTooCostly | None:
        """Take this many cells for a component, or return why there are too few."""
        left = self._share - self._used[namespace]
        if component in self._taken:
            return None
        if cells > left:
            return PlanTooCostly(namespace, cells, left, self._share)
        self._taken.add(component)
        self._used[namespace] += cells
        return None


class NamespaceBudgets:
    """A search budget; if several namespaces need repairs, each may spend half of it."""

    def __init__(self, whole: SearchBudget, namespaces: Collection[str]) -> None:
        self._whole = whole
        self._most = whole.left // 2 if len(set(namespaces)) > 1 else whole.left
        self._parts = defaultdict[str, SearchBudget](lambda: whole.part(self._most))

    def of(self, namespace: str) -> SearchBudget:
        """Return a namespace's budget; spending it also counts against the whole."""
        return self._parts[namespace]

    @property
    def left(self) -> int:
        """What is left of the whole."""
        return self._whole.left
