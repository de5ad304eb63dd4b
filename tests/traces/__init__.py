"""Recorded episodes of a real control plane, each of which the simulator must allow."""
