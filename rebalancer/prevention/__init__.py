"""Scale-downs that leave no skew: the order in which a controller should delete pods, and how it is kept.

A ReplicaSet ignores zones when it chooses pods to delete. Among equally ready pods it deletes the lowest
`controller.kubernetes.io/pod-deletion-cost` first, though. So an order that leaves every smaller number of pods spread,
written ahead of time, prevents violations that evictions would have to repair.
"""
