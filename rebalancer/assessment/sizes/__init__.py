"""Numbers of replicas that have no placement by the hard constraints alone, and the smallest change that helps."""
