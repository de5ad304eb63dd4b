"""The content of all reports as values: JSON documents and Kubernetes events.

Reports are made from the account of a cycle, its assessment and plan, and the history. `reporting` shows them. The
edges decide where they go: a terminal, a file, a metric, the cluster.
"""
