"""Evictions whose replacements improve the placement: whatever the scheduler picks, or by its scores."""
