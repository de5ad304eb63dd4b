"""Share limits: which limits are in force for which pods, what they count, and whether they hold."""
