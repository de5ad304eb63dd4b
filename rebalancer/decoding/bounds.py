"""Limits on reading the unbounded fields of a pod, which any creator of pods may fill.

Kubernetes bounds the size of an object, but no list in a pod: it may have thousands of constraints, each a text of any
length. If a pod has more than `MOST_TERMS` of a kind, or texts longer than a name or key may be, none of its
constraints, affinity and tolerations is read. `PodSpec.unread` says so, and its labels count as for any other pod.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from rebalancer.decoding import wire
from rebalancer.model.affinity import UnreadTerms
from rebalancer.model.labels import Operator, RequiredLabel, find_required_labels

MOST_TERMS: Final = 64
"""Entries of a list of constraints, or of affinity terms about pods, that are read."""
MOST_BYTES: Final = 65_536
"""Most bytes of these lists, tolerations and node affinity together, as the API server sends them."""
LONGEST_KEY: Final = 317
"""Characters of a label's key: a DNS subdomain of 253, a slash, a name of 63 (`IsQualifiedName` of apimachinery)."""
LONGEST_NAME: Final = 253
"""Characters of the name of an object (`IsDNS1123Subdomain`)."""
LONGEST_KIND: Final = 63
"""Characters of a kind, which is a DNS label in lower case (`NameIsDNS1035Label`)."""
LONGEST_TEXT: Final = 1_024
"""Characters of a text of people or programs that is kept, such as the message of a condition."""
_MOST_LABELS: Final = 4_096
"""Stored labels, and namespaces, of pods that the unread terms of one pod may select."""
LONGEST_ANNOTATION: Final = 256
"""Characters of an annotation that are kept."""
LONGEST_VOLUME_LIST: Final = 4_096
"""Characters that are kept of the annotation that lists the volumes of a pod."""

_VOLUME_LIST: Final = "safe-to-evict-local-volumes"
_ENCODE: Final = msgspec.json.Encoder().encode


def shorten(text: str, most: int) -> str:
    """Return a text of at most `most` characters; a shortened text ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shorten_annotation(key: str, text: str) -> str:
    """Return the value of an annotation as it is kept."""
    return shorten(text, LONGEST_VOLUME_LIST if key.endswith(_VOLUME_LIST) else LONGEST_ANNOTATION)


def find_excess(source: wire.PodSpec, owners: Iterable[wire.OwnerReference] = ()) -> str:
    """Return which part of a pod exceeds the limits of reading, "" if none."""
    return next(_find_excesses(source, owners), "")


def _find_excesses(source: wire.PodSpec, owners: Iterable[wire.OwnerReference]) -> Iterator[str]:
    for owner in owners:
        for field, text, most in (("kind", owner.kind, LONGEST_KIND), ("name", owner.name, LONGEST_NAME)):
            if len(text) > most:
                yield f"{field} of its owner has {len(text):,} characters, and a {field} has at most {most}"
    for path, entries in _list_terms(source):
        if len(entries) > MOST_TERMS:
            yield f"spec.{path} has {len(entries):,} entries; at most {MOST_TERMS} are read"
    for position, constraint in enumerate(source.topology_spread_constraints or ()):
        if len(constraint.topology_key) > LONGEST_KEY:
            yield (
                f"topologyKey of spec.topologySpreadConstraints[{position}] has {len(constraint.topology_key):,} "
                f"characters, and a label's key has at most {LONGEST_KEY}"
            )
    size = _count_bytes(source)
    if size > MOST_BYTES:
        yield (
            f"its constraints, affinity, tolerations and nodeSelector have {size:,} bytes; at most {MOST_BYTES:,} are "
            "read"
        )


def _count_bytes(source: wire.PodSpec) -> int:
    """Return the size of the fields that affect a pod's placement; 0 for most pods, which have none of them."""
    parts = source.topology_spread_constraints, source.affinity, source.tolerations, source.node_selector
    return len(_ENCODE(parts)) if any(parts) else 0


def _list_terms(source: wire.PodSpec) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the lists of a pod that are compared with other pods, by their path in its spec."""
    yield "topologySpreadConstraints", source.topology_spread_constraints or ()
    affinity = source.affinity
    if affinity is None:
        return
    for name, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is not None:
            yield f"affinity.{name}.required…", pods.required_during_scheduling_ignored_during_execution or ()
            yield f"affinity.{name}.preferred…", pods.preferred_during_scheduling_ignored_during_execution or ()


def summarize_unread(source: wire.PodSpec) -> UnreadTerms | None:
    """Return which pods the required anti-affinity of a pod may select, without its terms; None if it has none.

    Other terms of a running pod exclude no node for other pods: they change only scores, which force nothing.
    """
    against = source.affinity.pod_anti_affinity if source.affinity is not None else None
    terms = (against.required_during_scheduling_ignored_during_execution if against is not None else None) or ()
    if not terms:
        return None
    named = {name for term in terms for name in term.namespaces or ()}
    labels = {label for term in terms for label in _find_required_labels(term.label_selector)}
    many = len(named) > _MOST_LABELS
    return UnreadTerms(
        everywhere=many or any(term.namespace_selector is not None for term in terms),
        own=any(not term.namespaces and term.namespace_selector is None for term in terms),
        namespaces=frozenset() if many else frozenset(named),
        labels=frozenset({None}) if len(labels) > _MOST_LABELS else frozenset(labels),
    )


def _find_required_labels(selector: wire.LabelSelector | None) -> Iterable[RequiredLabel]:
    """Return labels of which every selected pod has at least one; empty if no pod is selected."""
    if selector is None:
        return ()
    equal = ((key, Operator.IN, (value,)) for key, value in (selector.match_labels or {}).items())
    others = ((one.key, one.operator, one.values or ()) for one in selector.match_expressions or ())
    return find_required_labels(chain(equal, others))
