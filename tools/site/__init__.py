"""The site of the documents, for Sphinx: `make site`."""
