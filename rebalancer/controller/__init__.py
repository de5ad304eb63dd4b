"""The loop: what is decided in a cycle, and the threads around it.

`cycle` is one cycle, `loop` the pure step function, `evictions` its part about requests, `election` the pure part of
leadership, `triggers` which changes call for an early cycle. `runner` turns the loop's requests into calls, `sender`
checks and sends one eviction, `elector` is the lease's thread, `policy_source` where the policy comes from, `telemetry`
what the process shows of itself, with the metrics of `gauges` and `counters`; `process` connects the parts.
"""
