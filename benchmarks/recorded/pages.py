"""Records a made state as an API server's answers: a folder with the pages of each list, in JSON and in protobuf.

python -m benchmarks.recorded.pages FOLDER --scenario zone-returned --size 5k
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from benchmarks.recorded import objects
from benchmarks.recorded.protobuf import encode, list_message, wrap_list
from benchmarks.recorded.states import SCENARIOS, SIZES, State

PAGE: Final = 500
VERSION: Final = "200000000"
INDEX: Final = "index.json"
POLICY: Final = "policy.yaml"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind: its path, its name, and its folder in k8s.io/api."""

    path: str
    name: str
    folder: str

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its list."""
        return self.path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]

    def message(self) -> str:
        """Return the full name of its protobuf message."""
        return list_message(self.folder, self.name)


KINDS: Final = {
    plural: Kind(path=f"{root}/{plural}", name=name, folder=folder)
    for plural, name, root, folder in (
        ("pods", "Pod", "/api/v1", "core/v1"),
        ("nodes", "Node", "/api/v1", "core/v1"),
        ("namespaces", "Namespace", "/api/v1", "core/v1"),
        ("services", "Service", "/api/v1", "core/v1"),
        ("persistentvolumes", "PersistentVolume", "/api/v1", "core/v1"),
        ("persistentvolumeclaims", "PersistentVolumeClaim", "/api/v1", "core/v1"),
        ("replicationcontrollers", "ReplicationController", "/api/v1", "core/v1"),
        ("deployments", "Deployment", "/apis/apps/v1", "apps/v1"),
        ("replicasets", "ReplicaSet", "/apis/apps/v1", "apps/v1"),
        ("statefulsets", "StatefulSet", "/apis/apps/v1", "apps/v1"),
        ("poddisruptionbudgets", "PodDisruptionBudget", "/apis/policy/v1", "policy/v1"),
        ("storageclasses", "StorageClass", "/apis/storage.k8s.io/v1", "storage/v1"),
        ("csinodes", "CSINode", "/apis/storage.k8s.io/v1", "storage/v1"),
        ("priorityclasses", "PriorityClass", "/apis/scheduling.k8s.io/v1", "scheduling/v1"),
    )
}

Encoded = tuple[bytes, bytes]
"""An object in JSON and in protobuf."""


def _encode_pods(state: State) -> Iterator[Encoded]:
    number = 0
    message = KINDS["pods"].message()
    for workload in state.workloads:
        made = objects.pod(workload)
        as_json = objects.Template.of(_to_json(made))
        as_protobuf = objects.Template.of(encode(message, made))
        for replica, node in enumerate(workload.nodes):
            texts = objects.pod_texts(replica, node, number)
            yield as_json.fill(texts), as_protobuf.fill(texts)
            number += 1


def _to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class _Recorder:
    """Writes the pages of one list after the other into one file for each encoding."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, BinaryIO] = {name: (folder / f"pages.{name}").open("wb") for name in ("json", "pb")}
        self.index: dict[str, dict[str, list[tuple[int, int]]]] = {}

    def record(self, kind: Kind, items: Iterable[Encoded], count: int) -> None:
        pages = self.index[kind.path] = {"json": [], "pb": []}
        rest = iter(items)
        for number in range(1, max(1, -(-count // PAGE)) + 1):
            chunk = list(islice(rest, PAGE))
            metadata: dict[str, Any] = {"resourceVersion": VERSION}
            if number * PAGE < count:
                metadata |= {"continue": str(number), "remainingItemCount": count - number * PAGE}
            head = {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata}
            text = _to_json(head)[:-1] + b',"items":[' + b",".join(item for item, _ in chunk) + b"]}\n"
            self._write("json", pages["json"], text)
            proto = wrap_list(kind.api_version, f"{kind.name}List", metadata, (item for _, item in chunk))
            self._write("pb", pages["pb"], proto)

    def _write(self, name: str, pages: list[tuple[int, int]], data: bytes) -> None:
        pages.append((self._files[name].tell(), len(data)))
        self._files[name].write(data)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def record(state: State, folder: Path) -> None:
    """Write the answers to all lists of a state into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    by_plural: dict[str, list[Encoded]] = {plural: [] for plural in KINDS}
    for plural, made in objects.others(state):
        by_plural[plural].append((_to_json(made), encode(KINDS[plural].message(), made)))
    recorder = _Recorder(folder)
    for plural, kind in KINDS.items():
        if plural == "pods":
            recorder.record(kind, _encode_pods(state), state.pods)
        else:
            recorder.record(kind, by_plural[plural], len(by_plural[plural]))
    recorder.close()
    if state.policy:
        (folder / POLICY).write_text(state.policy, encoding="utf-8")
    (folder / INDEX).write_text(json.dumps(recorder.index), encoding="utf-8")


def recorded(scenario: str, size: str, root: Path) -> Path:
    """Return the folder of a scenario below `root`, recording it if need be."""
    folder = root / f"{scenario}-{size}"
    if not (folder / INDEX).exists():
        record(SCENARIOS[scenario](*SIZES[size]), folder)
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    """Record one scenario."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recorded.pages", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenario", choices=SCENARIOS, default="zone-returned")
    parser.add_argument("--size", choices=SIZES, default="1k")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    folder = recorded(options.scenario, options.size, options.folder)
    sizes = ", ".join(f"{file.name} {file.stat().st_size / 2**20:,.0f} MiB" for file in sorted(folder.iterdir()))
    print(f"{folder}: {sizes}; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
