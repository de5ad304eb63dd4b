"""What goes wrong between a controller and the API server, and what must hold nevertheless.

    schedule    draws from a seed which requests and watches go wrong, how and when
    proxy       makes these faults between `rebalancer run` and a real API server, and records every request
    scenario    repairs a small workload under a schedule, in several lanes of one control plane side by side
    history     what happened: requests, the audit log, every change of the pods
    checker     the invariants, evaluated on a history alone

    python -m tests.faults 17           repeats the schedule of seed 17
    python -m tests.faults --count 200  carries out many
    python -m tests.faults --kill 5     kills the controller after its fifth write

A seed repeats the faults, not the moments at which the processes run: what a breach needs besides may come again only
sometimes. `--logs FOLDER` keeps the logs and the history of a run that failed.
"""
