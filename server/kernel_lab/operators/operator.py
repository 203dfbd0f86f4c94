"""An operator: one folder with manifest.json, test.json, bench.json, reference.py and templates.

In: a folder. Out: an `Operator`, whose parts are read when first asked for.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from kernel_lab import resources
from kernel_lab.errors import LabError
from kernel_lab.operators import cases, consistency, families, manifest, references
from kernel_lab.operators.cases import Case
from kernel_lab.operators.manifest import Manifest, Variant
from kernel_lab.operators.references import Reference

SHARED = "_shared"


@dataclass(frozen=True, eq=False)
class Operator:
    """`id` is the folder's name and the manifest's domain and name: one string everywhere.

    `reference_file` None: a foreign package, whose reference.py is never run unless someone names it.
    `templates`: a folder whose templates stand in for the operator's of the same names, if there is one.
    """

    id: str
    folder: Path
    reference_file: Path | None
    templates: Path | None = None

    @cached_property
    def manifest(self) -> Manifest:
        where = f"{self.id}/manifest.json"
        expanded = families.expand(_read_json(self.folder / "manifest.json", where), _shared(self.folder), where)
        parsed = manifest.parse(expanded, where)
        if parsed.id != self.id:
            raise LabError(f"{where}: names {parsed.id}, but its folder is called {self.id}.")
        for fault in consistency.faults(parsed):
            raise LabError(f"{where}: {fault}")
        return parsed

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        return cases.load(self.folder / "test.json", self.id)

    @cached_property
    def reference(self) -> Reference:
        if self.reference_file is None:
            raise LabError(
                f"{self.id}: this package is not kernel-lab's, so its reference.py is not run, and a case without "
                "expected values cannot be judged. Name a reference you trust with --reference FILE."
            )
        return references.load(self.reference_file)

    @property
    def has_reference(self) -> bool:
        return self.reference_file is not None

    @cached_property
    def bench(self) -> dict[str, Any]:
        return _read_json(self.folder / "bench.json", f"{self.id}/bench.json")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that the operator is made of: the names and bytes of its files, of the shared ones, and
        of a reference that lies elsewhere.
        """
        found = hashlib.sha256()
        own = [(path, folder) for folder in self._own_folders for path in sorted(folder.rglob("*"))]
        files = [(path.relative_to(folder.parent).as_posix(), path) for path, folder in own]
        if self.reference_file is not None and not self.reference_file.is_relative_to(self.folder):
            files.append(("--reference", self.reference_file))
        for name, path in (*files, *self.replaced.items()):
            if path.is_file() and path.suffix != ".pyc":
                for part in (name.encode(), path.read_bytes()):
                    found.update(len(part).to_bytes(8, "little") + part)
        return found.hexdigest()

    @property
    def replaced(self) -> dict[str, Path]:
        """The files of `templates` that stand in for a template of the operator, by name."""
        there = sorted(self.templates.iterdir()) if self.templates is not None else []
        return {
            path.name: path for path in there if any((folder / path.name).is_file() for folder in self._own_folders)
        }

    @property
    def _own_folders(self) -> tuple[Path, Path]:
        return (self.folder, self.folder.parent / SHARED)

    @property
    def template_folders(self) -> tuple[Path, ...]:
        """Where templates and their includes are looked for, in order."""
        return self._own_folders if self.templates is None else (self.templates, *self._own_folders)

    def variant(self, name: str) -> Variant:
        for variant in self.manifest.variants:
            if variant.id == name:
                return variant
        known = ", ".join(variant.id for variant in self.manifest.variants)
        raise LabError(f"{self.id} has no variant {name!r} (known: {known}).")


def load_all(folder: Path | None = None) -> dict[str, Operator]:
    """The operators of a folder (default: kernel-lab's own), by id, sorted."""
    root = folder or resources.shaders()
    found = sorted(path.parent for path in root.glob("*/manifest.json"))
    if not found:
        raise LabError(f"{root} holds no operator (a folder with manifest.json).")
    return {path.name: _operator(path, path / "reference.py") for path in found}


def load_packages(folders: Sequence[Path], reference: Path | None = None) -> dict[str, Operator]:
    """Operators of other people's packages: each folder is one (it has manifest.json) or holds some.

    Their reference.py is never loaded; `reference` names one that may be, for all of them.
    """
    found: dict[str, Operator] = {}
    for folder in folders:
        root = folder.resolve()
        manifests = (
            [root / "manifest.json"] if (root / "manifest.json").is_file() else sorted(root.glob("*/manifest.json"))
        )
        inside = [path.parent for path in manifests]
        if not inside:
            raise LabError(f"--package {folder}: holds no manifest.json, nor folders with one.")
        found.update({path.name: _operator(path, reference) for path in inside})
    return found


def afresh(operator: Operator) -> Operator:
    """The same operator, of which nothing is remembered: its files may have changed."""
    _shared_of.cache_clear()
    return Operator(operator.id, operator.folder, operator.reference_file, operator.templates)


@lru_cache(maxsize=64)
def with_templates(operator: Operator, templates: Path) -> Operator:
    """The same operator, with the templates of that folder instead of its own of the same names."""
    return Operator(operator.id, operator.folder, operator.reference_file, templates)


def named(name: str) -> Operator:
    """The operator of that id, or of that last name if only one has it; LabError lists the known ones."""
    return among(load_all(), name.removeprefix("webgpu-kernels/"))


def among(operators: Mapping[str, Operator], name: str) -> Operator:
    """The same of given operators."""
    if name in operators:
        return operators[name]
    short = [operator for key, operator in operators.items() if key.rpartition(".")[2] == name]
    if len(short) == 1:
        return short[0]
    raise LabError(f"operator {name!r} is unknown; known are {', '.join(operators)}.")


@lru_cache(maxsize=64)
def _operator(folder: Path, reference_file: Path | None) -> Operator:
    return Operator(folder.name, folder, reference_file)


@lru_cache(maxsize=16)
def _shared_of(folder: Path) -> Mapping[str, dict[str, Any]]:
    return {path.stem: _read_json(path, f"{SHARED}/{path.name}") for path in sorted(folder.glob("*.json"))}


def _shared(folder: Path) -> Mapping[str, dict[str, Any]]:
    return _shared_of(folder.parent / SHARED)


def _read_json(path: Path, where: str) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise LabError(f"{where}: the file is missing.") from None
    except json.JSONDecodeError as error:
        raise LabError(f"{where}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}.") from None
    if not isinstance(data, dict):
        raise LabError(f"{where}: must be a JSON object, found {type(data).__name__}.")
    return data
