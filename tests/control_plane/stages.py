"""How KWOK plays the kubelet: when a node, a pod becomes Ready, and when a deleted pod is gone.

KWOK has no behaviour of its own but the stages it is given. An instant Ready would hide mistakes with disruption
budgets, so that a pod needs a while, differently long for each. Labels and annotations bend this for a single pod:

    label      kwok.test/never-ready   the pod runs but isn't Ready while it has this label (any value)
    annotation kwok.test/ready-after   becomes Ready after exactly this time, e.g. "5s"
    annotation kwok.test/gone-after    takes exactly this time to terminate, e.g. "10s"
    label      kwok.test/no-image-on   on nodes whose name begins with its value the pod's image cannot be pulled
    label      kwok.test/no-volume-on  on such nodes it never gets a sandbox, as where its volume is attached elsewhere
    label      kwok.test/no-system-on  on such nodes the kubelet rejects it, as one of another operating system

An annotation bends it for a node:

    annotation kwok.test/lost          the node's Ready condition is Unknown while it has this annotation (any value)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

NEVER_READY: Final = "kwok.test/never-ready"
READY_AFTER: Final = "kwok.test/ready-after"
GONE_AFTER: Final = "kwok.test/gone-after"

NO_IMAGE_ON: Final = "kwok.test/no-image-on"
NO_VOLUME_ON: Final = "kwok.test/no-volume-on"
NO_SYSTEM_ON: Final = "kwok.test/no-system-on"

LOST: Final = "kwok.test/lost"

_NODE: Final = {"apiGroup": "v1", "kind": "Node"}
_POD: Final = {"apiGroup": "v1", "kind": "Pod"}
_READY: Final = '.status.conditions.[] | select( .type == "Ready" ) | .status'

_OBSTACLE: Final = (
    '. as $pod | ($pod.spec.nodeName // "") as $node | '
    + "".join(
        f'if ($node | startswith($pod.metadata.labels["{label}"] // "//")) then "{name}" else '
        for label, name in ((NO_IMAGE_ON, "image"), (NO_VOLUME_ON, "volume"), (NO_SYSTEM_ON, "system"))
    )
    + '"none" end end end'
)
_PULL_SECONDS: Final = 5.0
"""From a pod's binding until its kubelet says that the image cannot be pulled."""

_DELETE: Final = {"delete": True}

_NODE_STATUS: Final = """
conditions:
- {type: Ready, status: "True", reason: KubeletReady, message: simulated,
   lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }}}
"""

_NODE_LOST_STATUS: Final = """
conditions:
- {type: Ready, status: Unknown, reason: NodeStatusUnknown, message: simulated,
   lastTransitionTime: {{ Now | Quote }}}
"""

_POD_STATUS: Final = """
phase: Running
startTime: {{ or .status.startTime Now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: ContainersReady, status: "READY", lastTransitionTime: {{ Now | Quote }}}
- {type: Ready, status: "READY", lastTransitionTime: {{ Now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: BOOLEAN
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ Now | Quote }}}}
{{ end }}
"""


_NO_IMAGE_STATUS: Final = """
phase: Pending
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: ContainersReady, status: "False", lastTransitionTime: {{ Now | Quote }}}
- {type: Ready, status: "False", lastTransitionTime: {{ Now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state: {waiting: {reason: ImagePullBackOff, message: "Back-off pulling image"}}
{{ end }}
"""


_NO_SANDBOX_STATUS: Final = """
phase: Pending
startTime: {{ Now | Quote }}
conditions:
- {type: PodReadyToStartContainers, status: "False", lastTransitionTime: {{ Now | Quote }}}
- {type: Ready, status: "False", lastTransitionTime: {{ Now | Quote }}}
"""

_REJECTED_STATUS: Final = """
phase: Failed
reason: PodOSNotSupported
message: "Failed to admit pod as the OS field doesn't match node OS"
startTime: {{ Now | Quote }}
"""


def write_stages(path: Path, *, ready_after: tuple[float, float], gone_after: float) -> Path:
    """Write KWOK's configuration. Times in seconds; `ready_after` is the range a pod's time to Ready is drawn from."""
    documents = stages(ready_after=ready_after, gone_after=gone_after)
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


def stages(*, ready_after: tuple[float, float], gone_after: float) -> list[dict[str, Any]]:
    """Return the Stage documents."""
    shortest, longest = (_milliseconds(seconds) for seconds in ready_after)
    gone = _milliseconds(gone_after)
    living = _absent(".metadata.deletionTimestamp")
    dying = _present(".metadata.deletionTimestamp")
    becoming = (
        living,
        _isnt(".status.phase", "Succeeded", "Failed"),
        _isnt(_READY, "True"),
        _no_label(NEVER_READY),
        _is(_OBSTACLE, "none"),
    )
    return [
        _stage("node-ready", _NODE, [_isnt(_READY, "True"), _no_annotation(LOST)], {"statusTemplate": _NODE_STATUS}),
        _stage("node-lost", _NODE, [_is(_READY, "True"), _annotation(LOST)], {"statusTemplate": _NODE_LOST_STATUS}),
        _stage(
            "pod-ready",
            _POD,
            [*becoming, _no_annotation(READY_AFTER)],
            {"statusTemplate": _pod_status(ready=True)},
            delay={"durationMilliseconds": shortest, "jitterDurationMilliseconds": longest},
        ),
        _stage(
            "pod-ready-after",
            _POD,
            [*becoming, _annotation(READY_AFTER)],
            {"statusTemplate": _pod_status(ready=True)},
            delay=_delay_from(READY_AFTER),
        ),
        _stage(
            "pod-unready",
            _POD,
            [living, _label(NEVER_READY), _isnt(_READY, "False")],
            {"statusTemplate": _pod_status(ready=False)},
        ),
        _stage(
            "pod-image-missing",
            _POD,
            [living, _is(_OBSTACLE, "image"), _absent(".status.containerStatuses")],
            {"statusTemplate": _NO_IMAGE_STATUS},
            delay={"durationMilliseconds": _milliseconds(_PULL_SECONDS)},
        ),
        _stage(
            "pod-volume-elsewhere",
            _POD,
            [living, _is(_OBSTACLE, "volume"), _absent(".status.startTime")],
            {"statusTemplate": _NO_SANDBOX_STATUS},
        ),
        _stage(
            "pod-rejected",
            _POD,
            [living, _is(_OBSTACLE, "system"), _isnt(".status.phase", "Failed")],
            {"statusTemplate": _REJECTED_STATUS},
        ),
        _stage("pod-gone", _POD, [dying, _no_annotation(GONE_AFTER)], _DELETE, delay={"durationMilliseconds": gone}),
        _stage("pod-gone-after", _POD, [dying, _annotation(GONE_AFTER)], _DELETE, delay=_delay_from(GONE_AFTER)),
    ]


def _stage(
    name: str,
    resource: dict[str, str],
    when: list[dict[str, Any]],
    then: dict[str, Any],
    *,
    delay: dict[str, Any] | None = None,
) -> dict[str, Any]:
    spec: dict[str, Any] = {"resourceRef": resource, "selector": {"matchExpressions": when}, "next": then}
    if delay is not None:
        spec["delay"] = delay
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _pod_status(*, ready: bool) -> str:
    return _POD_STATUS.replace("READY", str(ready)).replace("BOOLEAN", str(ready).lower())


def _delay_from(annotation: str) -> dict[str, Any]:
    return {"durationFrom": {"expressionFrom": f'.metadata.annotations["{annotation}"]'}}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _is(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _isnt(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def _present(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists"}


def _absent(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "DoesNotExist"}


def _label(name: str) -> dict[str, Any]:
    return _present(f'.metadata.labels["{name}"]')


def _no_label(name: str) -> dict[str, Any]:
    return _absent(f'.metadata.labels["{name}"]')


def _annotation(name: str) -> dict[str, Any]:
    return _present(f'.metadata.annotations["{name}"]')


def _no_annotation(name: str) -> dict[str, Any]:
    return _absent(f'.metadata.annotations["{name}"]')
