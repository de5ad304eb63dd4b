"""From which sizes on bounds are coarser, for clusters of any size in bounded time."""

from typing import Final

from msgspec import Struct


class Sizes(Struct, frozen=True, kw_only=True):
    """How many cases are told apart at most; the bounds are sound with any."""

    domains: int = 8
    """Domains of a key by which pods of services are told apart: with more, each may close by itself."""
    requests: int = 100
    """Different requests that each make a kind of services; with more, similar sizes share a kind."""
    by_node: int = 600
    """Services times nodes of a program over single nodes."""
    all_nodes: int = 1_500
    """The same product over all such programs of a loss, for the fewest pods of a service: some five of the largest."""
    by_group: int = 400
    """Different services times different nodes of a program over these."""
    all_groups: int = 600
    """The same product over all programs of a loss."""


SIZES: Final = Sizes()
