"""How far the searches of one plan may go, in numbers and never in seconds, so that every machine plans alike.

A search that reaches a limit says so; no conclusion is drawn about states that it did not visit.
"""

from dataclasses import dataclass, field


class SearchLimitReached(Exception):  # noqa: N818  # a signal: the search would visit more than it may
    """Nothing is left of a search's budget."""


class SearchBudget:
    """What searches may still spend: states, nodes, solutions or work. `limit_reached`: a search left something out."""

    def __init__(self, left: int, wholes: "tuple[SearchBudget, ...]" = ()) -> None:
        """Start with `left`; spending also counts against `wholes`, the budgets that include this budget."""
        self.left = left
        self.limit_reached = False
        self._all: tuple[SearchBudget, ...] = (self, *wholes)

    def spend(self, number: int) -> None:
        """Subtract `number` visits; raise SearchLimitReached when nothing is left."""
        for budget in self._all:
            budget.left -= number
        if any(budget.left < 0 for budget in self._all):
            self.note_limit()
            raise SearchLimitReached

    def note_limit(self) -> None:
        """Record that a search left something out, here and in the budgets that include this budget."""
        for budget in self._all:
            budget.limit_reached = True

    def part(self, most: int) -> "SearchBudget":
        """Return a budget of at most `most` for a part of the search; spending it also counts against this budget."""
        return SearchBudget(most, self._all)


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """The limits of one plan.

    Units: *states* are states of a tree of equal nodes (`single_class.placement`) that a search visits; *nodes* are
    nodes of the cluster that are examined for a pod; *work* is how often the solver reports progress, times the numbers
    in its matrix; *columns* are columns of integer programs.
    """

    step_evictions: int = 12
    """Evictions of one step; the rest goes in the next one."""
    smallest_step: int = 4
    """Evictions that the smallest possible step may need; more never helped in trials."""
    step_states: int = 20_000
    """The most states that the search for one step visits."""
    contingent_states: int = 10_000
    """States that the contingent search of one component visits."""
    contingent_states_of_plan: int = 150_000
    """States that the contingent searches of one plan visit together."""
    contingent_evictions: int = 50
    """Evictions, and pending pods, of a repair that the contingent search takes on."""
    concurrent: int = 4
    """Concurrent evictions that a search considers; more never helped in trials."""
    unreachable_pods: int = 12
    """For components of up to this many pods a proof is tried that no sequence of placements repairs them."""
    unreachable_states: int = 100_000
    unreachable_concurrent: int = 3

    lookahead_nodes: int = 6_000
    """Nodes that one search on the real nodes examines."""
    lookahead_nodes_of_component: int = 12_000
    """The nodes that all searches of a component together examine."""
    lookahead_nodes_of_component_least: int = 8_000
    """The least share of a component if many need lookahead; fewer components then have their turn in one plan."""
    lookahead_nodes_of_plan: int = 40_000
    """The nodes that all searches of one plan together examine."""
    quick_nodes_of_plan: int = 20_000
    """The nodes of all quick searches of one plan, which do not count against `lookahead_nodes_of_plan`."""
    lookahead_start: int = 1_000
    """Cost of a search on the real nodes before it examines a node: it ranks the victims."""
    lookahead_pod: int = 100
    """Least cost of finding the nodes for one pod."""
    nodes_per_set_operation: int = 50
    """How many nodes a set operation examines at the price of one."""
    nodes_per_group: int = 5
    """In a cluster where the scheduler samples: how many nodes, scored in groups, count as one."""
    nodes_per_listing: int = 20
    """In such a cluster: how many nodes, only listed since any of them may be chosen, count as one."""
    lookahead_chain: int = 8
    """Evictions that may follow each other until everything is placed."""
    single_class_choices: int = 64
    """Distinct nodes among which the scheduler may choose for one pod; more are too many to follow."""
    multi_class_choices: int = 256

    cells_of_namespace: int = 24_000
    """Pod classes times nodes in the integer programs of one namespace in a plan: some 2 s and 150 MiB."""
    work_of_namespace: int = 6_000_000
    """Work of all integer programs of one namespace in a plan: as much as one hard program needs."""
    work_among_others: int = 1_000_000
    """The same if several namespaces need repairs; each minute one of them gets `work_of_namespace`."""
    namespace_work: SearchBudget | None = field(default=None, compare=False)
    """What the namespace has left of that work in this plan; None: unlimited."""
    solve_work: int = 6_000_000
    """Work of one integer program: some 20 s of a hard program."""
    nearest_work: int = 1_000_000
    """Work of the program for the nearest placement, if no placement satisfies everything."""
    supposed_work: int = 200_000
    """Work of the program of a supposed state."""
    relaxation_work: int = 1_000_000
    """Work of each program of a relaxation."""
    solver_nodes: int = 20_000
    """Nodes of the solver's search tree."""
    simplex_iterations: int = 1_000_000
    """Iterations of one linear program of the solver, which neither of the two limits above bounds."""
    local_changes: int = 200
    """Changes of a known placement that are tried for one pod."""

    relaxation_columns: int = 25_000
    """Columns that all programs of one relaxation have together."""
    relaxation_pods: int = 8
    """A bound is relaxed by at most this many pods, because nobody would write a bound that is relaxed further."""
    diagnosis_nodes_of_plan: int = 2_000_000
    """Nodes that one plan examines to explain why nodes take no more pods, and what would open them."""
    preemption_nodes_of_plan: int = 6_000
    """Nodes on which one plan tries preemption, plus examined outcomes: 1 ms each."""
    refused_preemption_nodes_of_plan: int = 1_000
    """The same if the policy refuses such repairs, and the plan only reports that it could permit one."""
    preferred_nodes_of_plan: int = 20_000
    """Nodes that the searches of one plan examine to honour preferred terms more."""
    feasible_count_distance: int = 100
    """How far from the present number of pods a feasible number is searched for."""
    expected_domains: int = 100
    """A prediction names up to this many domains of one key; a longer list does not help a reader."""
