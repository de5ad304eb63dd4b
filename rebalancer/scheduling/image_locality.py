"""ImageLocality: prefer nodes that have the pod's images, the more so the more nodes have them.

Source: `imagelocality/image_locality.go`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rebalancer.model.pods import Pod
from rebalancer.scheduling.view import View

MEBIBYTE: Final = 1024 * 1024
LEAST: Final = 23 * MEBIBYTE
MOST_PER_CONTAINER: Final = 1000 * MEBIBYTE


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return 0 to 100: the images' sizes, each times the share of nodes that have it, between 23 and 1000 MiB."""
    held = view.nodes.images
    total = len(view.nodes.by_name)
    wanted = [held[name] for name in map(normalize_image_name, pod.spec.images) if name in held]
    most = MOST_PER_CONTAINER * pod.spec.containers
    result = {}
    for node in nodes:
        present = sum(int(size * (len(names) / total)) for size, names in wanted if node in names)
        clamped = max(LEAST, min(present, most))
        result[node] = 100 * (clamped - LEAST) // (most - LEAST)
    return result


def normalize_image_name(image: str) -> str:
    """Add `:latest` to an image name without a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
