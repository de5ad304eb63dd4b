"""kube-scheduler's rules as pure functions over a `View`: one module a plugin, named as the plugin.

Nothing here knows a policy of ours, and there is no second scheduler in the tree: assessment, planner, simulator and
the command line all ask these functions. To learn the scheduler from them, read in this order:

* `view.View(snapshot, profile)`: one state of a cluster. `without(pods)`, `with_placed(pod, node)` and
  `terminating(pods)` give supposed states for microseconds; `live`, `present` and `used` are what plugins count.
  Beneath it: `node_index` (which nodes a label, an affinity or a toleration means), `population` (where pods stand),
  `changes` (how a supposed state differs), `usage` (what is taken of a node).
* `spread_constraints.constraints_of(pod, view)`: the hard and the soft constraints that apply, defaults included.
* `pod_topology_spread.counts(constraint, pod, view)`: counts by domain, minimum, skew, whom it admits;
  `eligibility(constraint, pod, view)` is one object for all pods that see the same nodes.
* The filters, each a `plugin.Filter`: `node_unschedulable`, `node_name`, `taint_toleration`, `node_affinity`,
  `node_ports`, `node_resources_fit`, `volume_restrictions`, `node_volume_limits`, `volume_binding`, `volume_zone`,
  `pod_topology_spread`, `inter_pod_affinity`; a `verdicts.Verdict` for each node, in the scheduler's own words.
* `feasibility.feasible(pod, view)`: the nodes that pass them all, fast and without reasons; `static_feasible` leaves
  out what the pod's own group decides.
* The scores: `score(pod, view, nodes)` in the plugins' modules (`pod_topology_spread_score`,
  `inter_pod_affinity_score` and `node_resources_balanced_allocation` have their own); `scoring.best` the top ones.
* `predict.predict(pod, view)`: all of it with reasons; `unpredictable` says where it should not be relied on.
* `replacement.replacement(pod, view)`: the pod that would come in the place of an evicted one; `admission`.
* `place.place(pods, view)` and `place.outcomes`: a queue of pods in turn, as modelled or with every choice there is.
* `profile`, `configuration`, `versions`: what an administrator, and what a release of Kubernetes changes.

How it is held against the real scheduler: docs/fidelity.md.
"""
