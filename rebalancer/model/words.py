"""Words that sentences about the cluster share: numbers with their nouns, lists of names, domains, durations."""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import ceil
from typing import Final

_MOST_NAMED: Final = 5
"""Up to this many names are listed; the rest are counted."""

EVICT_RIGHT: Final = "deploy/components/evict-rights/cluster-role.yaml"
"""The permission to evict and nothing else: deploy/evict would replace the policy, too."""

EVICT_RIGHT_THERE: Final = "kubectl apply -n NAMESPACE -k deploy/namespace"
"""The permission in one namespace, where that ClusterRole exists already."""

SHORT_KEYS: Final = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "kubernetes.io/hostname": "node",
}
"""The well-known topology keys, by the word that people use for their domains."""


_KEY: Final = re.compile(rf"(?<![-\w./])({'|'.join(map(re.escape, SHORT_KEYS))})(?:(=)(?=\S)|(?![-\w/]|\.\w))")


def short_key(key: str) -> str:
    """Shorten a well-known topology key: zone, region or node."""
    return SHORT_KEYS.get(key, key)


def shorten_keys(text: str) -> str:
    """Shorten the well-known topology keys of a sentence: `zone c`, for a domain has one name on a screen."""
    return _KEY.sub(lambda match: f"{SHORT_KEYS[match[1]]}{' ' if match[2] else ''}", text)


def constraint_name(key: str, max_skew: int, *, hard: bool) -> str:
    """Name a spread constraint: `zone, maxSkew 1 (soft)`."""
    return f"{short_key(key)}, maxSkew {max_skew}{'' if hard else ' (soft)'}"


def limit_name(limit: str, bound: object, key: str) -> str:
    """Name a limit, `group/limit`, with its bound: `limit all/half (maxShare <=1/2 per zone)`."""
    return f"limit {limit} ({bound} per {short_key(key)})"


def plural(number: int, noun: str, several: str = "") -> str:
    """Count things: `1 pod`, `2 pods`; `several` is a plural that does not end with an s."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def name_list(names: Iterable[str]) -> str:
    """List the first names and count the others."""
    every = list(names)
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more


def name_of_key(key: str, domains: Sequence[str]) -> str:
    """Name domains of one key: `topology.kubernetes.io/zone b, c`."""
    return f"{key} {', '.join(domains)}"


def format_duration(duration: timedelta) -> str:
    """Write a duration in whole seconds as people write it in Kubernetes: `1h30m`, `1m30s`, `0s`."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def format_rest(left: timedelta) -> str:
    """Write how long is left, rounded up, so that it never says 0s."""
    return format_duration(timedelta(seconds=ceil(left.total_seconds())))
