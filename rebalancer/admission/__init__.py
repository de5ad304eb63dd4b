"""What memory and the clock allow: which evictions of a plan may be sent now, rates, and a pause."""
