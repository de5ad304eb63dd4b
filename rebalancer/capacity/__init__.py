"""Capacity first: capacity for a repair is requested from an autoscaler before anything is evicted into it.

An autoscaler creates nodes only for pending pods. So that no pod of the users has to be pending, pods that do nothing
are (`placeholders`). `supposed` are the nodes that an autoscaler might create, `rehearsal` is the repair on them, and
`needs` are the repairs that lack nothing but capacity. `requests` is the life of a request, and `decision` puts these
together. `gate` frees the capacity of a step, and lets its evictions go only once it is free.

Everything here is a pure function; the loop creates and deletes the Jobs.
"""
