"""What is violated: every constraint and limit of every workload, counted exactly as kube-scheduler counts it.

`assess` evaluates the spread groups and the limits. `causes`, `findings` and `unmatched` explain the result further;
their callers compute them only when they show them. `planning` searches the repairs.
"""
