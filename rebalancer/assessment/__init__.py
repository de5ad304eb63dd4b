"""What is violated: every constraint and limit of every workload, counted exactly as kube-scheduler counts it.

`assess` evaluates the spread groups and the limits. `causes`, `findings` and `unmatched` explain the result further;
callers compute them only to show them. `planning` searches for repairs.
"""
