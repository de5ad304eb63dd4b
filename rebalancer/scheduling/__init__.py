"""kube-scheduler's rules as pure functions over a `View`: one module a plugin, named as the plugin.

Nothing here knows a policy of ours, and there is no second scheduler in the tree: assessment, planner, simulator and
the command line all ask these functions.

* `view.View(snapshot, profile)`: the indexes that all functions share; `without`, `with_placed` and `terminating` give
  supposed states cheaply.
* `spread_constraints.constraints_of(pod, view)`: the hard and soft constraints that apply, defaults included.
* `pod_topology_spread.counts(constraint, pod, view)`: counts by domain, minimum, skew, who may still come;
  `PodTopologySpread(pod, view)`: the filter.
* `profile`, `versions`: what an administrator, and what a release changes.
"""
