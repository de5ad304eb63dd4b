"""The account of a cycle: what becomes of repairs and evictions, and what has happened; every report reads it."""
