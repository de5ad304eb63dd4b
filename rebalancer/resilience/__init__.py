"""What is left of each service when a failure domain is lost."""
