"""What is told: documents (Report, Plan), events and sentences, all of them values.

How a document is shown (table, JSON, metrics, an event in the cluster) is decided at the edges.
"""
