"""Hypothesis strategies that draw any policy the format allows, as the document a file would hold."""

from typing import Any

from hypothesis import strategies as st

names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,10}[A-Za-z0-9])?", fullmatch=True)
keys = st.builds(lambda prefix, name: prefix + name, st.sampled_from(["", "example.com/", "a.b/"]), names)
values = st.one_of(st.just(""), names)
durations = st.builds(
    lambda h, m, s: f"{h}h{m}m{s}s", st.integers(0, 20), st.integers(0, 200), st.integers(0, 200)
) | st.sampled_from(["0s", "90s", "5m", "2h", "1h30m", "24h"])
long_durations = durations.filter(lambda text: any(digit in text for digit in "123456789"))
amounts = st.one_of(st.integers(0, 2**31 - 1), st.integers(0, 100).map(lambda number: f"{number}%"))
percentages = st.integers(0, 100).map(lambda number: f"{number}%")
globs = st.from_regex(r"[a-z0-9*?-]{1,12}", fullmatch=True)
owners = st.sampled_from(
    [
        "ReplicaSet",
        "StatefulSet",
        "ReplicationController",
        "CloneSet.apps.kruise.io",
        "Job.batch",
        "Rollout.argoproj.io",
    ]
)
domains_by_key = st.dictionaries(keys, st.lists(values, max_size=3), max_size=2)
permissions = st.sampled_from(["Refuse", "Allow"])
texts = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
expressions = st.one_of(
    st.fixed_dictionaries(
        {"key": keys, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(values, min_size=1, max_size=3)}
    ),
    st.fixed_dictionaries({"key": keys, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
selectors = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(keys, values, max_size=3),
        "matchExpressions": st.lists(expressions, max_size=3),
    },
)


windows = st.fixed_dictionaries(
    {
        "schedule": st.sampled_from(["0 22 * * 1-5", "*/30 1-4 * * *", "0 0 1,15 JAN-MAR sun", "5/10 2 29 2 *"]),
        "duration": st.sampled_from(["1s", "6h", "168h"]),
    },
    optional={"timeZone": st.sampled_from(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"])},
)


def _section(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


label_names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,10}[A-Za-z0-9])?", fullmatch=True)
shares = st.one_of(
    st.tuples(st.sampled_from(["<", "<="]), st.integers(1, 50), st.integers(51, 200)).map(
        lambda drawn: f"{drawn[0]}{drawn[1]}/{drawn[2]}"
    ),
    st.sampled_from(["<34%", "<=33.5%", "<100%", "<1/1", "<=99.999999%"]),
)
_open = st.tuples(st.sampled_from([">=", ">", "!="]), st.integers(0, 99)).map(lambda drawn: f"{drawn[0]}{drawn[1]}")
conditions = st.integers(1, 99) | _open
totals = st.integers(201, 299) | _open
"""So many that each of the shares allows one: what nothing satisfies is refused."""
group_by = st.just(["Workload"]) | st.lists(keys.filter(lambda key: key != "Workload"), min_size=1, unique=True)


def _name(document: dict[str, Any]) -> str:
    return str(document["name"])


def _limit(bound: tuple[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "name": label_names,
            # A key of its own for the minimum, or it could contradict a maximum.
            "topologyKey": st.just("min.example.com/rack") if bound[0] == "minPods" else keys,
            bound[0]: bound[1],
        },
        optional={
            "when": _section(zones=st.none() | conditions, total=st.none() | totals),
            "selector": st.none() | selectors,
            "groupBy": st.none() | group_by,
            "within": st.sampled_from(["large.example.com/domain", None]),
            "of": st.sampled_from(["desired", "live"]),
            "action": st.sampled_from(["Alert", "Evict"]),
            "severity": st.sampled_from(["info", "warning", "critical"]),
            "for": durations,
        },
    )


limits: st.SearchStrategy[dict[str, Any]] = st.one_of(
    [
        _limit(bound)
        for bound in (
            ("maxShare", shares),
            ("maxPods", st.integers(1, 99)),
            ("maxSkew", st.integers(1, 99)),
            ("minPods", st.just(1)),
        )
    ]
)
groups: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": label_names, "selector": selectors},
    optional={
        "namespaces": _section(include=st.lists(globs, max_size=3), exclude=st.lists(globs, max_size=3)),
        "groupBy": group_by,
        "zoneKey": st.sampled_from(["zone.example.com/name"]),
        "disruption": _section(maxInFlight=st.none() | st.integers(1, 9), settle=durations),
        "avoid": st.none() | selectors,
        "limits": st.lists(limits, max_size=3, unique_by=_name),
    },
)


queries = st.sampled_from(["up", "sum(rate(x[1m])) > 5", "up\n== 1"])
guard_queries: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        {"name": label_names, "query": queries, "present": queries},
        optional={"expect": st.just("Empty"), "for": st.sampled_from(["0s", "30s", "1h"])},
    ),
    st.fixed_dictionaries(
        {"name": label_names, "query": queries, "expect": st.just("NotEmpty")}, optional={"present": st.none()}
    ),
)
guards: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "prometheus": st.one_of(
            st.fixed_dictionaries(
                {"url": st.sampled_from(["http://prometheus:9090", "http://[::1]/a/b", "http://10.0.0.1:80/"])},
                optional={"timeout": st.sampled_from(["1s", "30s"]), "caFile": st.none()},
            ),
            st.fixed_dictionaries(
                {"url": st.just("https://a.b-c")},
                optional={"tokenFile": st.none() | texts, "caFile": st.none() | texts},
            ),
        )
    },
    optional={"queries": st.lists(guard_queries, max_size=2, unique_by=_name)},
)


documents: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"apiVersion": st.just("rebalancer.dev/v1alpha1"), "kind": st.just("RebalancePolicy")},
    optional={
        "mode": st.sampled_from(["Observe", "Approve", "Evict"]),
        "interval": long_durations,
        "planTTL": long_durations,
        "scheduler": _section(name=texts, configFile=st.none() | texts),
        "spread": st.fixed_dictionaries(
            {},
            optional={
                "actOn": st.lists(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]), max_size=2),
                "for": durations,
            },
        ),
        "antiAffinity": _section(
            actOn=st.lists(st.sampled_from(["Required", "Preferred"]), max_size=2),
            **{"for": durations},
        ),
        "groups": st.lists(groups, max_size=2, unique_by=_name),
        "eligibility": _section(
            namespaces=_section(include=st.lists(globs, max_size=3), exclude=st.lists(globs, max_size=3)),
            selector=st.none() | selectors,
            owners=st.lists(owners, max_size=3),
            minReplicas=st.integers(1, 2**31 - 1),
            minAge=durations,
            localStorage=_section(**dict.fromkeys(("emptyDir", "ephemeral", "hostPath"), permissions)),
            preemption=permissions,
            priorityBelow=st.integers(-(2**31), 2**31 - 1) | st.sampled_from(["system-node-critical", "a.b-c", "x1"]),
        ),
        "budgets": _section(
            maxUnavailable=amounts,
            perWorkload=amounts,
            perCycle=amounts,
            perNode=amounts,
            perNamespace=amounts,
            perMinute=amounts,
            canary=st.integers(0, 10),
        ),
        "guards": guards,
        "nodes": _section(settle=durations),
        "breaker": _section(
            **dict.fromkeys(("unreadyNodes", "unreadyInZone", "pendingPods", "apiErrors", "failedMoves"), percentages),
            pendingFor=st.sampled_from(["0s", "1m", "1h"]),
            window=st.sampled_from(["1s", "5m", "1h"]),
            clearAfter=durations,
        ),
        "topology": _section(domains=domains_by_key, ignore=domains_by_key, remember=durations),
        "capacity": _section(
            mode=st.sampled_from(["Off", "Observe", "Request"]),
            maxPods=st.integers(1, 100),
            timeout=st.sampled_from(["1s", "10m", "6h"]),
            settle=durations,
            image=st.sampled_from(["pause", "mirror.example.com/pause:3"]),
            namespace=st.sampled_from(["rebalancer-capacity", "a"]),
        ),
        "windows": st.lists(windows, max_size=2),
        "teamPolicies": _section(namespaces=st.lists(globs, max_size=3), evict=st.lists(globs, max_size=3)),
    },
)

team_groups: st.SearchStrategy[dict[str, Any]] = groups.map(
    lambda group: {key: value for key, value in group.items() if key != "namespaces"}
)
team_documents: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"apiVersion": st.just("rebalancer.dev/v1alpha1"), "kind": st.just("TeamPolicy")},
    optional={
        "budgets": _section(
            maxUnavailable=st.none() | amounts, perWorkload=st.none() | amounts, perNamespace=st.none() | amounts
        ),
        "groups": st.lists(team_groups, max_size=3, unique_by=_name),
    },
)
