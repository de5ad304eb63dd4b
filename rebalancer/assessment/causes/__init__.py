"""What led to a violation: changes between two snapshots, and which of them explains it."""
