"""Components of several pod classes: an integer program over pod class and node."""
