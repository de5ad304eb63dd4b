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
    built: dict[tuple[str, str, str], Manifest] = {}
    _add(built, folder)
    return built


def _add(built: dict[tuple[str, str, str], Manifest], folder: Path) -> None:
    """Add what a kustomization, or a component of one, has and changes."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    assert kustomization.keys() <= {"apiVersion", "kind", "resources", "components", "patches"}
    for resource in kustomization.get("resources", ()):
        path = folder / resource
        objects = build(path) if path.is_dir() else {identity(document): document for document in documents(path)}
        assert not built.keys() & objects.keys()
        built |= objects
    for component in kustomization.get("components", ()):
        _add(built, folder / component)
    for patch in kustomization.get("patches", ()):
        (change,) = documents(folder / patch["path"])
        assert change.keys() == {"apiVersion", "kind", "metadata", "data"}
        built[identity(change)]["data"] |= change["data"]
