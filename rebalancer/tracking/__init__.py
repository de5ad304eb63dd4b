"""Tracking: the progress of requested evictions, and what a new snapshot adds to the memory."""
