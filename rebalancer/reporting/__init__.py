"""What Rebalancer reports: JSON documents, text and events, all of them values.

`documents` holds the shapes and fills them, `text` renders them for a terminal, `events` creates Kubernetes events.
The edges decide where they go: a terminal, a file, a metric, the cluster.
"""
