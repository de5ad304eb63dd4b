"""Tracking: what became of our evictions, and what a new snapshot adds to the memory."""
