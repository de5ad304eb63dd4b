"""One seeded world: replicas of the controller, a simulated cluster, and everything that can go wrong between them.

Order, time, faults, crashes and other actors are drawn from a seed, so that a run can be repeated to the byte:
`python -m tests.world SEED`. `hub` is virtual time and the tasks in it, `port` a replica's connection to the cluster,
`replica` the controller's own code driven by the hub, `disturbances` what is drawn, `monitor` the promises that are
checked at every request, `world` one run, `safeguards` what is taken out to see that the promises are checked.
"""
