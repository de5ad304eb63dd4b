"""The preconditions of every eviction: one result for each check, and how the results are shown."""
