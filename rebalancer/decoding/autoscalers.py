"""HorizontalPodAutoscalers."""

from rebalancer.decoding import wire
from rebalancer.decoding.interning import Interner
from rebalancer.model.autoscalers import Autoscaler


def decode_autoscaler(source: wire.Autoscaler, _: Interner) -> Autoscaler:
    """Convert a HorizontalPodAutoscaler to the model's."""
    target = source.spec.scale_target_ref
    return Autoscaler(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        target_kind=target.kind,
        target_name=target.name,
        min_replicas=source.spec.min_replicas,
    )
