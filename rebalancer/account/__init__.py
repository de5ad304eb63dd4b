"""The account of a cycle, which every report reads: what becomes of repairs and evictions, and what has happened."""
