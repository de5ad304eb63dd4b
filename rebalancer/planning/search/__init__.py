"""The one search of the planner: its driver, its limits, what it reports, and the answers that one plan shares."""
