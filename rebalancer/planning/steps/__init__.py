"""Search for evictions whose replacements improve the placement: on any feasible or on the best node."""
