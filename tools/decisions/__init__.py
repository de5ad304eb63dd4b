"""What the planner decides for thousands of drawn states, recorded and compared, to show that a change decides alike."""
