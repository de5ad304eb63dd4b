"""The edges of the program: they read and write bytes. Adapters do not import each other, and decide nothing."""
