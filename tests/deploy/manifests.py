"""Reads the kustomizations the way kustomize puts them together, as far as they use it."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

Manifest = dict[str, Any]


def documents(file: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document]


def identity(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def build(folder: Path) -> dict[tuple[str, str, str], Manifest]:
    """Collect the resources of a kustomization and apply its patches, which only replace keys of ConfigMaps' data."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    assert kustomization.keys() <= {"apiVersion", "kind", "resources", "patches"}
    built: dict[tuple[str, str, str], Manifest] = {}
    for resource in kustomization["resources"]:
        path = folder / resource
        objects = build(path) if path.is_dir() else {identity(document): document for document in documents(path)}
        assert not built.keys() & objects.keys()
        built |= objects
    for patch in kustomization.get("patches", ()):
        (change,) = documents(folder / patch["path"])
        assert change.keys() == {"apiVersion", "kind", "metadata", "data"}
        built[identity(change)]["data"] |= change["data"]
    return built
