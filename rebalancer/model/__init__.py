"""Facts about a cluster, with Kubernetes' own names. Depends on no policy and on no way of reading a cluster."""
