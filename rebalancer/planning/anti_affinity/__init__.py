"""Required podAntiAffinity as a part of a component's problem: which of its pods keep which others from a domain."""
