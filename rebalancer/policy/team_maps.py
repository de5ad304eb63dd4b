"""The ConfigMaps of team policies, valid or not: the reading of each, and the policy with all of those in force."""

from collections.abc import Iterable
from typing import Final

from rebalancer.model.cluster import ConfigMap
from rebalancer.policy import NO_TEAM_POLICY, Merged, Policy, PolicyError, TeamReading, load_team_policy, merge

POLICY_MAP: Final = "rebalancer-policy"
POLICY_KEY: Final = "policy.yaml"
"""The name of the ConfigMap of a policy, and the key in it.

The cluster policy is in the controller's namespace, a team policy in the team's.
"""

VALID_POLICY_MAP: Final = "rebalancer-policy-valid"
"""Where the controller stores the cluster policy in force, under the key of policies."""


def read_team_policy(config_map: ConfigMap | None, before: TeamReading | None) -> TeamReading:
    """Return the reading of a namespace's ConfigMap, None if there is none; `before` is the last reading.

    If the ConfigMap holds no valid team policy, the last valid one stays in force, and the reading says why.
    """
    if config_map is None:
        return TeamReading(policy=NO_TEAM_POLICY)
    last = before.policy if before is not None else None
    name = f"ConfigMap {config_map.namespace}/{config_map.name}"
    if POLICY_KEY in config_map.binary:
        return TeamReading(policy=last, problem=f"{name}: {POLICY_KEY} is not text in UTF-8")
    if POLICY_KEY not in config_map.data:
        return TeamReading(policy=last, problem=f"{name}: there is no key {POLICY_KEY}; add it or delete the ConfigMap")
    try:
        text = config_map.data[POLICY_KEY].encode(errors="surrogatepass")
        return TeamReading(policy=load_team_policy(text, source=f"{name}, {POLICY_KEY}"))
    except PolicyError as error:
        return TeamReading(policy=last, problem=str(error))


def merge_team_maps(cluster: Policy, maps: Iterable[ConfigMap], namespaces: Iterable[str]) -> Merged:
    """Put the team policies of namespaces in force. A listed namespace without a ConfigMap has no team policy."""
    known = {config_map.namespace: config_map for config_map in maps}
    listed = [name for name in namespaces if cluster.team_policies.allows(name)]
    if not listed:
        return Merged(policy=cluster, problems={})
    return merge(cluster, {name: read_team_policy(known.get(name), None) for name in listed})
