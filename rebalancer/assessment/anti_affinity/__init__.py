"""Required podAntiAffinity: which pods share a domain although a term of one of them selects the other."""
