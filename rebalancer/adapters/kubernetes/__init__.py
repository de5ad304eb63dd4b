"""The API server: the official client does authentication and TLS, this project does the decoding.

`transport` sends requests, `reflector` keeps a store of one kind up to date, `cluster` implements the control loop's
port, `evictions`, `events`, `lease` and `configmaps` write.
"""
