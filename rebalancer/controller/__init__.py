"""The control loop: the decisions of a cycle, and the threads around it.

Pure parts: `cycle` is one cycle, `loop` the step function, and `evictions` its part about requests. `election` decides
about leadership, and `triggers` which changes call for an early cycle.

Threads: `runner` turns the loop's requests into calls, `sender` checks and sends one eviction, and `elector` renews the
lease. `policy_source` reads the policy. `telemetry` shows the process, with the metrics of `gauges` and `counters`.
`process` connects the parts.
"""
