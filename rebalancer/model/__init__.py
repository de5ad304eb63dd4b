"""Facts: what a cluster holds, in Kubernetes' own words. Knows no policy and no way of reading a cluster."""
