"""kube-scheduler's rules as pure functions over a `View`: one module for each plugin, with the plugin's name.

Nothing here depends on the policy. Assessment, planner, simulator and the command line all call these functions; the
tree has no second model of the scheduler. To learn the scheduler from them, read in this order:

* `view.View(snapshot, profile)`: one state of a cluster. `without(pods)`, `with_placed(pod, node)` and
  `terminating(pods)` derive hypothetical states within microseconds; `live`, `present` and `used` are what plugins
  count. Beneath it: `node_index` (the nodes that a label, an affinity or a toleration selects), `population` (the pods
  by node), `node_usage` (the resources in use on a node).
* `spread_constraints.constraints_of(pod, view)`: the hard and the soft constraints that apply, defaults included.
* `pod_topology_spread.counts(constraint, pod, view)`: counts by domain, minimum, skew, and the domains that admit
  another pod; `eligibility(constraint, pod, view)` is one object for all pods that see the same nodes.
* The filters, each a `plugin.Filter`: `node_unschedulable`, `node_name`, `taint_toleration`, `node_affinity`,
  `node_ports`, `node_resources_fit`, `volume_restrictions`, `node_volume_limits`, `volume_binding`, `volume_zone`,
  `pod_topology_spread`, `inter_pod_affinity`; a `verdicts.Verdict` for each node, with the scheduler's own message.
* `feasibility.feasible(pod, view)`: the nodes that pass all filters, fast and without reasons; `static_feasible` leaves
  out what the pod's own group decides.
* The scores: `score(pod, view, nodes)` in the plugins' modules (`pod_topology_spread_score`, `inter_pod_affinity_score`
  and `node_resources_balanced_allocation` have their own); `scoring.best` returns the top-scoring nodes.
* `sampling`, `sampled_scores`: what every sample of a large cluster contains, and which nodes may rank highest in one.
* `predict.predict(pod, view)`: the whole decision with its reasons; `unpredictable` names the pods whose placement the
  model cannot predict.
* `tie_breaking`: the nodes with the same top score, and which of them a release picks, where that is known.
* `place.place(pods, view)`: a queue of pods one after the other; `place.candidate_nodes(pod, view, choose)`: the nodes
  that a pod may get, by the modelled choice or by any. The planner's searches and the simulator's scheduler call it,
  too.
* `profile`, `configuration`, `versions`: what an administrator, and what a release of Kubernetes changes.

How the rules are compared with the real scheduler: docs/results.md.
"""
