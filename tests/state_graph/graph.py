"""The graph of everything that can happen to a small cluster, and what is true of every path in it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalancer.planning.plan import Plan
from tests.state_graph.scenes import Scene, State
from tests.state_graph.steps import Actor, Decide, Step, controller_steps, decide, other_steps, scheduler_steps


@dataclass
class Graph:
    """All states of a scene that can be reached from any placement, with every step out of each."""

    scene: Scene
    steps: dict[State, frozenset[Step]] = field(default_factory=dict)

    @property
    def edges(self) -> int:
        """The number of steps."""
        return sum(map(len, self.steps.values()))

    def alone(self, state: State) -> Iterator[Step]:
        """Yield the steps of controller and scheduler that lead to another state."""
        return (step for step in self.steps[state] if step.actor is not Actor.OTHER and step.to != state)


def explore(scene: Scene, choose: Decide = decide) -> Graph:
    """Return the graph of a scene."""
    graph = Graph(scene)
    open_ = list(scene.placements())
    known = set(open_)
    while open_:
        state = open_.pop()
        steps = frozenset(
            (*controller_steps(scene, state, choose), *scheduler_steps(scene, state), *other_steps(scene, state))
        )
        graph.steps[state] = steps
        for step in steps:
            if step.to not in known:
                known.add(step.to)
                open_.append(step.to)
    return graph


def find_cycle(graph: Graph) -> list[State]:
    """Return a cycle that controller and scheduler can repeat without end by themselves, [] if there is none.

    Depth first, without recursion: a step back to a state on the present path closes a cycle. A step of the controller
    that evicts and leads back to the same state would be one, too; it cannot be: an eviction adds a pod that waits.
    """
    finished: set[State] = set()
    for start in graph.steps:
        if start in finished:
            continue
        path, on_path, branches = [start], {start}, [graph.alone(start)]
        while path:
            step = next(branches[-1], None)
            if step is None:
                done = path.pop()
                branches.pop()
                on_path.discard(done)
                finished.add(done)
            elif step.to in on_path:
                return path[path.index(step.to) :]
            elif step.to not in finished:
                path.append(step.to)
                on_path.add(step.to)
                branches.append(graph.alone(step.to))
    return []


def most_evictions(graph: Graph) -> dict[State, int]:
    """Return for each state the most evictions that can follow while nobody else acts; there is no cycle."""
    most: dict[State, int] = {}
    for start in graph.steps:
        open_ = [start]
        while open_:
            state = open_[-1]
            following = list(graph.alone(state))
            unknown = [step.to for step in following if step.to not in most]
            if unknown:
                open_ += unknown
                continue
            open_.pop()
            most[state] = max((step.evictions + most[step.to] for step in following), default=0)
    return most


def rests(graph: Graph) -> Iterator[State]:
    """Yield the states in which neither controller nor scheduler does anything more."""
    return (state for state in graph.steps if not any(graph.alone(state)))


def plan_of(scene: Scene, state: State) -> Plan:
    """Return the controller's plan in a state."""
    return decide(scene, scene.world(state)).plan
