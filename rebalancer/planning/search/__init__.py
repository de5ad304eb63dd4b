"""The planner's search: its driver, its limits, its reports, and the answers that one plan shares."""
