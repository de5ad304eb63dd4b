"""Admission: which planned evictions may be sent now, by mode, pause, duration and rates; what to store."""
