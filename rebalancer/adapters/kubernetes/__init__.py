"""The API server, over the official client's transport: authentication and TLS are its, decoding is ours.

`transport` sends requests, `reflector` keeps a store of one kind up to date, `cluster` is the port the loop knows,
`evictions`, `events`, `lease` and `configmaps` write.
"""
