"""From which sizes on bounds are made in coarser ways, for clusters of any size in bounded time."""

from typing import Final

from msgspec import Struct


class Sizes(Struct, frozen=True, kw_only=True):
    """What is told apart at most; each is sound with any."""

    domains: int = 8
    """Domains of a key by which the pods of services are told apart: of more, each by itself may close."""
    requests: int = 100
    """Different requests that each make a kind of services; of more, those of about a size do."""
    by_node: int = 600
    """Services times nodes of a program over single nodes."""
    all_nodes: int = 1_500
    """The same of all such programs of a loss for the fewest pods of a service: some five of the largest."""
    by_group: int = 400
    """Different services times different nodes of a program over these."""
    all_groups: int = 600
    """The same of all programs of a loss."""


SIZES: Final = Sizes()
