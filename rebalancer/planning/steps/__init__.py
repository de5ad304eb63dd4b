"""Search for evictions whose replacements improve the placement: on any feasible node, or as scores predict."""
