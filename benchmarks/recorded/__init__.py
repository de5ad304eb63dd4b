"""Made clusters, recorded as the API server's own answers, and a server that plays them back over TLS."""
