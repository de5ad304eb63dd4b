"""The content of all reports as values: JSON documents and Kubernetes events.

They are made from the account of a cycle, its assessment and plan, and what has happened. `reporting` shows them. The
edges decide where they go: a terminal, a file, a metric, the cluster.
"""
