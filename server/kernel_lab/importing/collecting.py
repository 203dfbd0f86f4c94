"""Paths to cases: each is a backend-test folder, a folder of such folders, or a model file.

In: paths, what to feed models with. Out: cases with names of their own, and lines that say where they come from; then
pairs to run.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from kernel_lab import runs
from kernel_lab.errors import LabError
from kernel_lab.importing import backend_folders, models
from kernel_lab.importing.feeds import Feeding
from kernel_lab.operators import operator
from kernel_lab.operators.cases import Case
from kernel_lab.queries import Query
from kernel_lab.runs import Pair


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """`notes`: what a reader should know, a line each."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...]


def collect(paths: Sequence[Path], feeding: Feeding | None = None) -> Imported:
    """All cases of all paths, in their order; LabError if there is none."""
    operators = operator.load_all()
    cases: list[Case] = []
    notes: list[str] = []
    folders = left = 0
    for path in paths:
        if path.is_dir():
            for folder in _folders(path):
                found = backend_folders.cases(folder, operators)
                cases += found
                folders, left = folders + 1, left + (not found)
        elif path.is_file():
            found, said = models.cases(path, feeding or Feeding(), operators)
            cases += found
            notes += [f"{path.name}: {text}" for text in (_counts(found), *said)]
        else:
            raise LabError(f"{path}: there is no such file or folder.")
    if folders:
        other = f"; {left} folders are of other operators" if left else ""
        notes.insert(0, f"backend-test folders: {folders}{other}")
    if not cases:
        raise LabError(f"none of the {folders} folders is a test of {', '.join(operators)}.")
    everything = ("kernel-lab", "onnx", *map(str, paths), *(feeding.words if feeding else ()), "--case")
    return Imported(tuple(_with_unique_names(cases, everything)), tuple(notes))


def pairs(cases: Iterable[Case], queries: Sequence[Query], *, every_variant: bool) -> Iterator[Pair]:
    """What to run of imported cases, operator by operator: so pipelines are compiled once."""
    operators = operator.load_all()
    for name, group in groupby(sorted(cases, key=lambda case: case.operator), lambda case: case.operator):
        yield from runs.pairs_of_cases(operators[name], group, queries, every_variant=every_variant)


def _folders(path: Path) -> list[Path]:
    found = [path] if backend_folders.is_one(path) else sorted(p for p in path.iterdir() if backend_folders.is_one(p))
    if not found:
        raise LabError(f"{path}: is no backend-test folder and holds none (a folder with {backend_folders.MODEL}).")
    return found


def _counts(cases: Iterable[Case]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(case.operator for case in cases).items())


def _with_unique_names(cases: Iterable[Case], everything: tuple[str, ...]) -> Iterable[Case]:
    """A name that came before gets a number: two files of one name, or nodes that differ in a character left out.
    Such a case is repeated by the command that gave it this name."""
    seen: set[str] = set()
    for case in cases:
        name, number = case.name, 1
        while f"{case.operator}:{name}" in seen:
            number += 1
            name = f"{case.name}_{number}"
        seen.add(f"{case.operator}:{name}")
        yield case if name == case.name else dataclasses.replace(case, name=name, repeat=everything)
