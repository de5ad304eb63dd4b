"""What the API server would make of an owner's template now, and whether it would make it at all.

An eviction is only a deletion: what comes back is made from the owner's template, changed by admission as it is today.
`next_spec.make_spec` is that pod's spec. Below it: `defaults` (what the API server fills in), `next_requests` (limit
ranges, vertical autoscalers, webhooks) and `node_selectors` (of the namespace and the RuntimeClass).
"""
