"""How long the proof takes where pods are of several kinds. Run: `python -m pytest benchmarks/test_components.py -s`.

100 components of 100 nodes and 200 pods, each from its seed. What is not proved within the node limit is told with
its bound.
"""

import time
from statistics import median

from benchmarks.component_states import hundred_nodes
from rebalancer.planning.mixture import Mixed
from rebalancer.planning.program import Unsolved, solve
from tests.planning.scenes import problems


def test_a_hundred_components() -> None:
    """At least nine of ten are proved, the least or that there is none, half of them within two seconds each."""
    took, proved, open_ = [], 0, []
    for seed in range(100):
        scene = hundred_nodes(seed)
        (problem,) = problems(scene.snapshot(), scene.policy())
        assert isinstance(problem, Mixed), problem
        start = time.process_time()
        found = solve(problem)
        took.append(time.process_time() - start)
        if found is Unsolved.INFEASIBLE or (not isinstance(found, Unsolved) and (found.evictions == found.bound)):
            proved += 1
        else:
            bound = "" if isinstance(found, Unsolved) else f"{found.evictions}, at least {found.bound}"
            open_.append(f"seed {seed}: {bound or found}")
    print(f"\nproved {proved} of 100, median {median(took):.2f} s, longest {max(took):.2f} s of processor time")
    print("\n".join(open_))
    assert proved >= 90
    assert median(took) <= 2
