"""The model held against the real scheduler: random clusters, the scheduler's log, the comparison."""
