"""A small cluster in memory behind the loop's ports, so that any run can be simulated, replayed and shrunk.

One idea a module: `agenda` is time, `store` the objects, `watch` what a client knows of them; `replica_sets`,
`stateful_sets`, `deployments`, `scheduler`, `kubelets` and `disruption` are the actors, `evictions` the API, and
`node_changes` what an operator or an outage does. `cluster` puts them together, `blueprint` builds a first state.

Played as in a real cluster: replacements, placement by kube-scheduler's rules, readiness, disruption budgets with their
delay, the Eviction API's answers. Not played: rollouts, preemption, provisioning of volumes, taint-based eviction.
"""

from rebalancer.adapters.simulator.builder import HOSTNAME, START, ZONE, ClusterBuilder
from rebalancer.adapters.simulator.cluster import SimulatedCluster
from rebalancer.adapters.simulator.lease import SimulatedLease
from rebalancer.adapters.simulator.scheduler import pick_most_crowded, pick_random_best
from rebalancer.adapters.simulator.timings import Faults, Span, Timings
from rebalancer.adapters.simulator.trace import TraceEntry, TraceKind

__all__ = [
    "HOSTNAME",
    "START",
    "ZONE",
    "ClusterBuilder",
    "Faults",
    "SimulatedCluster",
    "SimulatedLease",
    "Span",
    "Timings",
    "TraceEntry",
    "TraceKind",
    "pick_most_crowded",
    "pick_random_best",
]
