"""Surges: repairs that add pods to a workload before other pods go, so that no pod is ever missing."""
