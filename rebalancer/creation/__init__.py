"""The pod that the API server would now make of an owner's template, and whether it would accept the pod.

An eviction is only a deletion. The owner's controller creates the replacement from its template, and admission, as
configured today, changes it.

* `replacement.replacement(pod, view)`: the pod that replaces an evicted pod. Its spec is `next_spec.make_next`: what
  the API server fills in (`defaults`), what its containers request (`next_requests`: limit ranges, vertical
  autoscalers, webhooks, pods resized in place), and which nodes it may use (`node_selectors`). No prediction is made if
  a policy may change the pod in a way that no existing pod shows (`mutating_policies`).
* `acceptance.find_refusals`: why the API server would refuse the pod: `quotas`, `limit_ranges`, `pod_security`,
  `named_objects` that do not exist, `webhooks` that must answer and cannot.
"""
