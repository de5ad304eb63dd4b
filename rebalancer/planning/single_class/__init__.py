"""Components of equal pods: their placement as a tree of domains, the minimum, the certificate, the victims."""
