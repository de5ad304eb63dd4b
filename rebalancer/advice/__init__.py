"""What an owner could change: constraints that enforce what a limit only wishes, and what they risk."""
