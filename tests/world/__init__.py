"""One seeded world: replicas of the controller, a simulated cluster, and everything that can go wrong between them.

Order, time, faults, crashes and other actors are drawn from a seed, so that a run can be repeated to the byte:
`python -m tests.world SEED`. `hub` is virtual time and the tasks in it, `port` a replica's connection to the cluster,
`view` its watches, `replica` the controller's own code driven by the hub. `scenarios` and `schedule` are what is drawn:
`disturbances` of network and processes, `actors` in the cluster, the `approver` of plans. `monitor`, `records` and
`ending` are the promises, `observer` shows them what a replica decides; `safeguards` are taken out to see that the
promises are checked. `world` is one run, `shrink` makes a failing one smaller.
"""
