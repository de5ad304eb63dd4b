"""What is said, as values: JSON documents and Kubernetes events.

Each is made of the account of a cycle, of what was assessed and planned, and of what has happened. `reporting` shows
them; the edges decide where they go: a terminal, a file, a metric, the cluster.
"""
