"""References: `reference.py` of an operator's folder, loaded by path (an operator's id has dots).

In: a file. Out: a `Reference`. A reference shares no code with what it judges: it may import numpy,
ml_dtypes and the standard library.
"""

import ast
import functools
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from kernel_lab.errors import LabError
from kernel_lab.operators.cases import Tensors
from kernel_lab.operators.dtypes import Array

P = ParamSpec("P")
R = TypeVar("R")
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
    """The reference in that file; LabError if it is no Python, imports more than it may, or lacks `reference`."""
    text = path.read_text("utf-8")
    try:
        _check_imports(text, path)
    except SyntaxError as error:
        raise LabError(f"{path}: line {error.lineno}: is no Python: {error.msg}.") from None
    module = ModuleType(f"kernel_lab_reference_{abs(hash(str(path))):x}")
    module.__file__ = str(path)
    # not by import's own loader: its bytecode files take two texts of one length, saved in one second, for the same
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)
    except Exception as error:  # noqa: BLE001 - whatever somebody's file raises
        raise _fault(error, path) from None
    compute = getattr(module, "reference", None)
    if not callable(compute):
        raise LabError(f"{path}: defines no function `reference(inputs, attrs)`.")
    given = getattr(module, "INTERMEDIATES", {})
    values = {name: _value(one, f"{path}: INTERMEDIATES[{name!r}]", path) for name, one in given.items()}
    mistakes = {name: _guarded(one, path) for name, one in getattr(module, "MISTAKES", {}).items()}
    inputs_of, steps_of = (_maybe(getattr(module, name, None), path) for name in ("inputs_of", "steps_of"))
    return Reference(_guarded(compute, path), inputs_of, mistakes, steps_of, values)


def _fault(error: Exception, path: Path) -> LabError:
    """What a reference's file raised, with the last of its lines that was at work."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return LabError(f"{path}: line {lines[-1] if lines else '?'}: {type(error).__name__}: {error}.")


def _guarded(function: Callable[P, R], path: Path) -> Callable[P, R]:
    """The reference's function; what it raises is a LabError with its file and line."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except LabError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever somebody's file raises
            raise _fault(error, path) from None

    return call


def _maybe(function: Any, path: Path) -> Any:
    return None if function is None else _guarded(function, path)


def _value(given: Any, where: str, path: Path) -> Value:
    """A value from what INTERMEDIATES says of it: `{"of": function, "axes": "n g m", "steps_of": function}`."""
    if not isinstance(given, dict) or not callable(given.get("of")) or not given.keys() <= {"of", "axes", "steps_of"}:
        raise LabError(f'{where}: must be {{"of": a function of inputs and attrs}}, maybe with "axes" and "steps_of".')
    axes = given.get("axes")
    names = None if axes is None else tuple(axes.split())
    return Value(_guarded(given["of"], path), names, _maybe(given.get("steps_of"), path))


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
