"""The schema of the chart's values: an unknown name is refused before anything is rendered.

The policy's part is the policy's own schema. Parts that are copied into a pod are Kubernetes' own; the API server
checks those.
"""

from typing import Any, Final

from rebalancer.policy import json_schema

_TEXT: Final = {"type": "string"}
_SWITCH: Final = {"type": "boolean"}
_NAMES: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_KUBERNETES: Final = {"type": "object"}
_KUBERNETES_LIST: Final = {"type": "array", "items": {"type": "object"}}
_RESOURCE: Final = {"type": "string", "pattern": r"^[a-z0-9]+(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+$"}
_NAMESPACE: Final = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}
_NAMESPACE_OR_NONE: Final = {"type": "string", "pattern": "^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$"}
_NAMESPACES: Final = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[a-z0-9-]{1,63}$"}}
_DURATION: Final = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"}
_PROBE: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        name: {"type": "integer", "minimum": 0}
        for name in ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold")
    },
}
_PORT: Final = {"type": "integer", "minimum": 1, "maximum": 65535}
_PORTS: Final = {"type": "array", "minItems": 1, "items": _PORT}
_FLAG: Final = {
    "type": "string",
    "pattern": "^--(mode|lease-duration|renew-deadline|retry-period|request-timeout|log-)",
}

Schema = dict[str, Any]


def values_schema() -> Schema:
    """Return the schema, draft 2020-12."""
    policy = _portable(json_schema())
    definitions = policy.pop("$defs")
    fields = {name: field for name, field in policy["properties"].items() if name not in {"apiVersion", "kind"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_section(
            image=_section(
                repository=_TEXT,
                tag=_TEXT,
                digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
                pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            ),
            imagePullSecrets={"type": "array", "items": _section(name=_TEXT)},
            policy=_section(**fields),
            rbac=_section(namespaced=_SWITCH, people=_SWITCH),
            cluster=_section(name={"type": "string", "maxLength": 100}),
            workloadNamespaces={"type": "array", "uniqueItems": True, "items": _NAMESPACE},
            ownerResources={"type": "array", "uniqueItems": True, "items": _RESOURCE},
            replicas={"type": "integer", "minimum": 1, "maximum": 5},
            podDisruptionBudget=_section(
                enabled=_SWITCH, maxUnavailable={"type": ["integer", "string"], "pattern": "^[0-9]+%$"}
            ),
            spread={"enum": ["ScheduleAnyway", "DoNotSchedule"]},
            priorityClassName=_TEXT,
            resources=_section(requests=_KUBERNETES, limits=_KUBERNETES),
            probes=_section(startup=_PROBE, liveness=_PROBE, readiness=_PROBE),
            extraArgs={"type": "array", "items": _FLAG},
            extraEnv=_KUBERNETES_LIST,
            extraVolumes=_KUBERNETES_LIST,
            extraVolumeMounts=_KUBERNETES_LIST,
            labels=_NAMES,
            annotations=_NAMES,
            podLabels=_NAMES,
            podAnnotations=_NAMES,
            serviceAccountAnnotations=_NAMES,
            nodeSelector=_NAMES,
            tolerations=_KUBERNETES_LIST,
            affinity=_KUBERNETES,
            serviceMonitor=_section(enabled=_SWITCH, interval=_DURATION, labels=_NAMES),
            podMonitor=_section(enabled=_SWITCH, interval=_DURATION, labels=_NAMES),
            prometheusRule=_section(enabled=_SWITCH, runbookUrl=_TEXT, labels=_NAMES),
            dashboard=_section(enabled=_SWITCH, labels=_NAMES),
            pageProxy=_section(
                enabled=_SWITCH,
                image={"type": "string", "pattern": "^[^ @]+(:[^ :@]+|@sha256:[0-9a-f]{64})$"},
                secret={"type": "string", "minLength": 1},
                **{"from": _NAMESPACES},
                resources=_section(requests=_KUBERNETES, limits=_KUBERNETES),
            ),
            networkPolicy=_section(
                enabled=_SWITCH,
                **{"from": _NAMESPACES},
                apiServerPorts=_PORTS,
                prometheus=_section(namespace=_NAMESPACE_OR_NONE, port=_PORT),
            ),
            **{"global": {"type": "object", "description": "Of Helm, for charts that contain this one."}},
        ),
        "$defs": definitions,
    }


def _section(**fields: Any) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": fields}


def _portable(schema: Any) -> Any:
    """Leave out patterns that look ahead, which Helm's engine cannot read; the program refuses such values itself."""
    if isinstance(schema, dict):
        portable = {
            key: value for key, value in schema.items() if key != "pattern" or "(?" not in str(value).replace("(?:", "")
        }
        return {key: _portable(value) for key, value in portable.items()}
    return [_portable(item) for item in schema] if isinstance(schema, list) else schema
