"""The image without a registry: stand-ins for its two bases, and the unmodified Dockerfile built on them."""
