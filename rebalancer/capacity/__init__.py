"""Capacity first: capacity for a repair is requested from an autoscaler before anything is evicted into it.

An autoscaler creates nodes only for pending pods. Instead of users' pods, pods that do nothing are pending
(`placeholders`). `supposed` are the nodes that an autoscaler might create, `rehearsal` is the repair on them, and
`needs` are the repairs that lack nothing but capacity. `requests` is the life of a request, and `decision` combines
these modules. `gate` frees the capacity of a step, and admits its evictions only once the capacity is free.

Everything here is a pure function; the loop creates and deletes the Jobs.
"""
