"""What a component requires of its pods: one interface, for pods of one class and of several."""
