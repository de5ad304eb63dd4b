"""Rebalancer: keeps Kubernetes workloads spread the way kube-scheduler would count it."""

__version__ = "0.1.0"
