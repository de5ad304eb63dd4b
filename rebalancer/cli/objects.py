"""Objects as the command line names them: NAME, KIND/NAME, NAMESPACE/KIND/NAME, or KIND NAME as kubectl takes it."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeVar

from rebalancer.assessment.controllers import stray_controllers
from rebalancer.assessment.name_hints import nearest_name
from rebalancer.cli.errors import CliError, UsageError
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import reference_of
from rebalancer.scheduling.view import View

_KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("deployment", "deployments", "deploy"), "Deployment"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), "StatefulSet"),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), "ReplicaSet"),
}


def parse_object(words: Sequence[str], given: str | None) -> tuple[str | None, str | None, str]:
    """Read KIND/NAME, NAMESPACE/KIND/NAME, KIND NAME as for kubectl, or NAME, whose kind is None.

    `given` is the namespace of -n.
    """
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) == 1 and parts[0]:
        return given, None, parts[0]
    mixed = len(words) > 1 and any("/" in word for word in words)
    if mixed or len(words) > 2 or len(parts) not in {2, 3} or not all(parts):
        several = len(words) > 1 and all("/" in word for word in words)
        raise _unexpected(words, "; name one object at a time" if several else "")
    *namespaces, kind, name = parts
    for namespace in namespaces:
        if given not in {None, namespace}:
            raise UsageError(f"{words[0]} is in namespace {namespace}, but -n names {given}; leave out one of them")
        given = namespace
    return given, kind.lower(), name


def _unexpected(words: Sequence[str], hint: str) -> UsageError:
    return UsageError(
        f"found {' '.join(words)!r}, expected NAME, KIND/NAME or NAMESPACE/KIND/NAME such as pod/web-1; kinds: pod, "
        f"deployment, statefulset, replicaset, and others that own pods{hint}"
    )


def find_object(word: str | None, name: str, namespace: str | None, view: View) -> Pod | Reference:
    """Return the pod, or the top-level workload of an owner; UsageError or CliError if there is none.

    Without a `word` for the kind, return the only workload of that name, or the only pod.
    """
    if word is None:
        return _find_by_name(name, namespace, view)
    if _KINDS.get(word) == "Pod":
        pods = [pod for pod in view.snapshot.pods if namespace in {None, pod.namespace}]
        return _choose("Pod", name, namespace, pods)
    groups = _list_owners(view)
    known, kinds = {reference for reference, _ in groups}, {(reference.kind, group) for reference, group in groups}
    kind = _KINDS.get(word) or next((kind for kind, group in sorted(kinds) if word in _name_kind(kind, group)), None)
    if kind is None:
        words = {*_KINDS, *(kind.lower() for kind, _ in kinds)}
        near = get_close_matches(word, sorted(words), n=1)
        raise _unexpected([f"{word}/{name}"], f"; did you mean {near[0]}/{name}?" if near else "")
    candidates = [one for one in known if one.kind == kind and namespace in {None, one.namespace}]
    return _top_of(_choose(kind, name, namespace, candidates), view)


def _list_owners(view: View) -> set[tuple[Reference, str]]:
    """Return all owners of pods, each with the API group of its kind."""
    owners = [*view.snapshot.workloads, *view.snapshot.tops.values()]
    strays = [(stray.reference, stray.pods[0].owner) for stray in stray_controllers(view)]
    return {
        *((reference_of(owner), owner.group) for owner in owners),
        *((reference, owner.group) for reference, owner in strays if owner is not None),
    }


def _top_of(reference: Reference, view: View) -> Reference:
    """Return the top-level workload of an owner: for a ReplicaSet of a Deployment, the Deployment."""
    owner = next((owner for owner in view.snapshot.workloads if reference_of(owner) == reference), None)
    return reference if owner is None else reference_of(view.snapshot.top_of(owner))


def _find_by_name(name: str, namespace: str | None, view: View) -> Pod | Reference:
    """Return the only workload of a name, else the only pod; if there are several, CliError lists what to type."""
    known = [reference for reference, _ in _list_owners(view) if namespace in {None, reference.namespace}]
    pods = [pod for pod in view.snapshot.pods if namespace in {None, pod.namespace}]
    workloads = {_top_of(reference, view) for reference in known if reference.name == name}
    matching: dict[str, Pod | Reference] = {f"{one.namespace}/{one.kind.lower()}/{name}": one for one in workloads}
    matching = matching or {f"{pod.namespace}/pod/{name}": pod for pod in pods if pod.name == name}
    if len(matching) > 1:
        raise CliError(f"several objects are called {name}; type one of: {', '.join(sorted(matching))}")
    if not matching:
        where = f" in namespace {namespace}" if namespace is not None else ""
        near = nearest_name(name, {reference.name for reference in known} | {pod.name for pod in pods})
        raise CliError(f"no workload or pod is called {name}{where}{f'; did you mean {near}?' if near else ''}")
    return next(iter(matching.values()))


def _name_kind(kind: str, group: str) -> frozenset[str]:
    """Return the words for a kind that kubectl accepts: singular and plural, with and without the group."""
    one = kind.lower().partition(".")[0]
    words = [one, f"{one}s", f"{one}es"]
    return frozenset((kind.lower(), *words, *(f"{word}.{group}" for word in words)))


Named = TypeVar("Named", Pod, Reference)


def _choose(kind: str, name: str, namespace: str | None, candidates: Sequence[Named]) -> Named:
    """Return the object of a name; CliError if no namespace, or more than one, has it."""
    matching = [candidate for candidate in candidates if candidate.name == name]
    if not matching:
        where = f" in namespace {namespace}" if namespace is not None else ""
        near = nearest_name(name, {candidate.name for candidate in candidates})
        raise CliError(f"{kind} {name} does not exist{where}{f'; did you mean {near}?' if near else ''}")
    if len(matching) > 1:
        namespaces = ", ".join(sorted(candidate.namespace for candidate in matching))
        raise CliError(f"{kind} {name} exists in the namespaces {namespaces}; choose one with -n")
    return matching[0]
