"""The preconditions of any eviction: one result for each check, and its display."""
