"""Scale-downs that leave no skew: the order in which a controller should delete pods, and how it is kept.

A ReplicaSet chooses the pods that it deletes without looking at zones. It goes by
`controller.kubernetes.io/pod-deletion-cost` first, though, of pods that are equally ready. So an order that leaves
every smaller number of pods spread, written ahead of time, prevents what evictions would have to repair afterwards.
"""
