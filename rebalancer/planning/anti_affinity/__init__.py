"""Required podAntiAffinity in a component's problem: which of its pods keep other pods out of a domain."""
