"""What the API server would make of an owner's template now, and whether it would accept the pod at all.

An eviction is only a deletion. The owner's controller creates the replacement from its template, and admission changes
it as it is configured today.

* `replacement.replacement(pod, view)`: the pod that replaces an evicted pod. Its spec is `next_spec.make_next`: what
  the API server fills in (`defaults`), what its containers request (`next_requests`: limit ranges, vertical
  autoscalers, webhooks, pods resized in place), and which nodes it may use (`node_selectors`). It is not predicted
  where a policy may change it in a way that no pod shows (`mutating_policies`).
* `acceptance.find_refusals`: why the API server would refuse it: `quotas`, `limit_ranges`, `pod_security`,
  `named_objects` that do not exist, `webhooks` that must answer and cannot.
"""
