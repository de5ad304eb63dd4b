"""Surges: repairs that add pods to a workload before others go, so that none is ever missing."""
