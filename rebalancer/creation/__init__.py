"""What the API server would make of an owner's template now, and whether it would make it at all.

An eviction is only a deletion: what comes back is made by the owner's controller from its template, and changed by
admission as it is today.

* `replacement.replacement(pod, view)`: the pod that replaces an evicted one. Its spec is `next_spec.make_next`: what
  the API server fills in (`defaults`), what its containers request (`next_requests`: limit ranges, vertical
  autoscalers, webhooks, pods resized in place), and which nodes it may use (`node_selectors`). It is not predicted
  where a policy may change it in a way that no pod shows (`mutating_policies`).
* `acceptance.find_refusals`: what it would be refused for: `quotas`, `limit_ranges`, `pod_security`, `named_objects`
  that do not exist, `webhooks` that must answer and cannot.
"""
