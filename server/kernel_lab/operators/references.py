"""References: `reference.py` of an operator's folder, loaded by path (an operator's id has dots).

In: a file. Out: a `Reference`. A reference shares no code with what it judges: it may import numpy,
ml_dtypes and the standard library.
"""

import ast
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from kernel_lab.errors import LabError
from kernel_lab.operators.cases import Tensors
from kernel_lab.operators.dtypes import Array

Outputs = dict[str, Any]
Compute = Callable[[Tensors, Mapping[str, Any]], Outputs]
InputsOf = Callable[[tuple[int, ...], Tensors, Mapping[str, Any]], dict[str, list[tuple[int, ...]]]]
StepsOf = Callable[[tuple[int, ...], Tensors, Mapping[str, Any]], dict[str, Any]]
ValueOf = Callable[[Tensors, Mapping[str, Any]], Array]
_ALLOWED = {"numpy", "ml_dtypes"} | sys.stdlib_module_names


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What a reference has on its way to the outputs: `of(inputs, attrs)`, an array whose axes have the names in
    `axes`. Without names it has the shape of the buffers that hold it. `steps_of`: the way to one of its elements.
    """

    of: ValueOf
    axes: tuple[str, ...] | None = None
    steps_of: StepsOf | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """`compute(inputs, attrs)` gives the right outputs; `inputs_of(index, inputs, attrs)` which input elements feed one
    output element; `steps_of(index, inputs, attrs)` the way to its value: a table `{"columns": […], "rows": [[…], …]}`,
    and in `"then"` the lines that follow it; `mistakes` are named wrong computations, each of which some case must
    catch; `values`, by name, are what passes may leave in intermediates.
    """

    compute: Compute
    inputs_of: InputsOf | None
    mistakes: Mapping[str, Compute]
    steps_of: StepsOf | None = None
    values: Mapping[str, Value] = field(default_factory=dict)


def load(path: Path) -> Reference:
    """The reference in that file; LabError if it imports more than it may or lacks `reference`."""
    text = path.read_text("utf-8")
    _check_imports(text, path)
    module = ModuleType(f"kernel_lab_reference_{abs(hash(str(path))):x}")
    module.__file__ = str(path)
    # not by import's own loader: its bytecode files take two texts of one length, saved in one second, for the same
    exec(compile(text, str(path), "exec"), module.__dict__)
    compute = getattr(module, "reference", None)
    if not callable(compute):
        raise LabError(f"{path}: defines no function `reference(inputs, attrs)`.")
    inputs_of, steps_of = getattr(module, "inputs_of", None), getattr(module, "steps_of", None)
    given = getattr(module, "INTERMEDIATES", {})
    values = {name: _value(one, f"{path}: INTERMEDIATES[{name!r}]") for name, one in given.items()}
    return Reference(compute, inputs_of, getattr(module, "MISTAKES", {}), steps_of, values)


def _value(given: Any, where: str) -> Value:
    """A value from what INTERMEDIATES says of it: `{"of": function, "axes": "n g m", "steps_of": function}`."""
    if not isinstance(given, dict) or not callable(given.get("of")) or not given.keys() <= {"of", "axes", "steps_of"}:
        raise LabError(f'{where}: must be {{"of": a function of inputs and attrs}}, maybe with "axes" and "steps_of".')
    axes = given.get("axes")
    return Value(given["of"], None if axes is None else tuple(axes.split()), given.get("steps_of"))


def _check_imports(text: str, path: Path) -> None:
    for node in ast.walk(ast.parse(text, str(path))):
        names = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        for name in names:
            if name.partition(".")[0] not in _ALLOWED:
                raise LabError(
                    f"{path}: line {getattr(node, 'lineno', 0)}: imports {name}; a reference may import numpy, "
                    "ml_dtypes and the standard library only, so that it shares no code with what it judges."
                )
