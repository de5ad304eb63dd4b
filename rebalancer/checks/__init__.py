"""What must be right before anything moves: one result for each thing that is checked, and how it is shown."""
