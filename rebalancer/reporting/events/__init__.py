"""Kubernetes events, created when a state changes."""
