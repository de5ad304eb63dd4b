"""A small cluster in memory behind the control loop's ports: any run can be repeated and minimized.

`event_queue` is simulated time, `store` has the API server's objects, and `watch` is a client's view of these objects.
`state` is what all controllers share, and `trace` is the record of what happened.

`owners` (ReplicaSets, StatefulSets, Deployments), `scheduler`, `kubelets` and `disruption` are the controllers, and
`pod_factory` makes their pods. `evictions` is the Eviction API, `node_changes` are the actions of operators and
outages, `autoscaler` creates and removes nodes, and `jobs` are the Jobs of placeholder pods. `cluster` connects all
these modules, and `builder` builds a first snapshot.

The controller's own loop runs on this cluster: `controller` is one of its processes, and `changes` are the changes by
an operator or an outage. `play` runs both until nothing is left to do, and records what happened. `scenario` reads
files with changes, a cluster (`sketch`) and a story. `story` tells a play as it goes, and `page` serves its status
page. The commands `simulate` and `demo` show all this.

Simulated as in a real cluster: replacements, placement by kube-scheduler's rules, readiness, disruption budgets with
their delay, preemption as far as it is certain, the responses of the Eviction API, rolling updates (`rollouts`) that
begin in the simulation. Not simulated: provisioning of volumes, taint-based eviction.
"""

from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.simulator.autoscaler import Autoscaling
from rebalancer.simulator.builder import START, ClusterBuilder
from rebalancer.simulator.cluster import SimulatedCluster, SimulatedLease
from rebalancer.simulator.scheduler import pick_most_crowded, pick_random_best
from rebalancer.simulator.state import RollingUpdate
from rebalancer.simulator.timings import Faults, Span, Timings
from rebalancer.simulator.trace import TraceEntry, TraceKind

__all__ = [
    "HOSTNAME",
    "START",
    "ZONE",
    "Autoscaling",
    "ClusterBuilder",
    "Faults",
    "RollingUpdate",
    "SimulatedCluster",
    "SimulatedLease",
    "Span",
    "Timings",
    "TraceEntry",
    "TraceKind",
    "pick_most_crowded",
    "pick_random_best",
]
