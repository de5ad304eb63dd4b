"""Admission: which planned evictions may be sent now, by mode, pause, duration and rates, and what to store."""
