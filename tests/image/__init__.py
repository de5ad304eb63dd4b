"""The image as it is built and run; its bases are stand-ins of Debian's packages, see `tools/image`."""
