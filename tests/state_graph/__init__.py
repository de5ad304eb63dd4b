"""The controller, the scheduler and a second actor on small clusters: every state, and every step out of each."""
