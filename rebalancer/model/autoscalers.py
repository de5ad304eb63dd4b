"""HorizontalPodAutoscalers: how far a workload may be scaled down without anybody's doing."""

from msgspec import Struct


class Autoscaler(Struct, frozen=True, gc=False, kw_only=True):
    """A HorizontalPodAutoscaler: the workload that it scales, and the fewest replicas that it leaves."""

    namespace: str
    name: str
    target_kind: str
    target_name: str
    min_replicas: int = 1
