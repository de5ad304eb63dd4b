"""What needs memory or the clock: which of a plan may go now, and how each move ends.

`admission` lets evictions through, `moves` is the life of one, `overlay` corrects a snapshot by what we know we did.
"""
