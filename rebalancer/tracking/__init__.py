"""What we did and what became of it: the life of a move, back-off, and moves laid over a snapshot."""
