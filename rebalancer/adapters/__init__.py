"""The edges: bytes in, bytes out. Adapters do not know each other, and decide nothing."""
