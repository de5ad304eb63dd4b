"""The account of a cycle: what becomes of each repair and of each eviction, decided once; all that is said reads it."""
