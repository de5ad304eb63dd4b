"""The loop: what is decided in a cycle, and the threads that carry bytes around it.

`loop` is the pure step function, `election` the pure part of leadership; `runner` is the shell that turns requests
into calls, `elector` the lease's thread, `sources` where the policy comes from, `process` the wiring in one place.
"""
