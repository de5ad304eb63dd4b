"""Share limits: which are in force for which pods, what they count, and whether they hold."""
