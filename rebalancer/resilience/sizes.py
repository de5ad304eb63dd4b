"""The sizes above which bounds become coarser, which keeps the computation time bounded in clusters of any size."""

from typing import Final

from msgspec import Struct


class Sizes(Struct, frozen=True, kw_only=True):
    """The most cases that are distinguished; the bounds are sound at every size."""

    domains: int = 8
    """The most domains of a key by which pods are distinguished; above that, each domain may close by itself."""
    requests: int = 100
    """The most different requests that each make a kind of services; above that, similar requests share a kind."""
    by_node: int = 600
    """The most services times nodes of a program over single nodes."""
    all_nodes: int = 1_500
    """The same product for all such programs of a loss, for the fewest pods of a service: about five of the largest."""
    by_group: int = 400
    """The most different services times different nodes of a program over equal nodes."""
    all_groups: int = 600
    """The same product for all such programs of a loss together."""


SIZES: Final = Sizes()
