"""Cases: named inputs and attributes of one operator, with what must come out, or the refusal that is the right answer.

In: test.json (or arrays, from ONNX files and from code). Out: `Case` values; tensors are made when first asked for, so
that thousands of cases are listed in milliseconds.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import ml_dtypes
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes, generators
from kernel_lab.operators.dtypes import Array, DType
from kernel_lab.operators.parsing import first_fault, known_keys_only
from kernel_lab.operators.requests import Opset, Request

Tensors = Mapping[str, Array]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: object) -> object:
        return known_keys_only(cls, data)


class Values(_Model):
    kind: Literal["values"]
    values: list[int | float | str] | dict[str, str]


class Bits(_Model):
    kind: Literal["bits"]
    values: list[str]


class Random(_Model):
    kind: Literal["random"]
    generator: Literal["lowbias32"]
    seed: int
    min: float
    max: float


class TensorSource(_Model):
    """One tensor of test.json: `values` (flat numbers), `bits` (hex, one an element) or `random`."""

    dtype: str
    shape: list[Annotated[int, Field(ge=0)]]
    data: Annotated[Values | Bits | Random, Field(discriminator="kind")]


class Provenance(_Model):
    source: str
    test: str = ""


class CaseSource(_Model):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
    why: str = ""
    attrs: dict[str, Any] = {}
    opset: int | Opset | None = None
    inputs: dict[str, TensorSource]
    expected: dict[str, TensorSource] | None = None
    refused: str | None = None
    provenance: Provenance | None = None


class CaseFile(_Model):
    op: str | None = None
    fixtureArrays: dict[str, list[int | float | str]] = {}
    cases: list[CaseSource]


@dataclass(frozen=True, eq=False)
class Case:
    """One case. `refused`: a piece of the sentence that must refuse it; then nothing is expected to run.

    `make_inputs` gives the tensors, `make_expected` the right outputs and who says so; `expected` None means that the
    operator's reference decides. `origin` says where the case comes from, `repeat` the command that runs it again, up
    to its query (empty: that of built-in cases).
    """

    operator: str
    name: str
    request: Request
    make_inputs: Callable[[], Tensors] = field(repr=False)
    make_expected: Callable[[], tuple[Tensors, str]] | None = field(default=None, repr=False)
    refused: str | None = None
    why: str = ""
    origin: str = ""
    repeat: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        return f"{self.operator}:{self.name}"

    @cached_property
    def inputs(self) -> Tensors:
        return self.make_inputs()

    @cached_property
    def expected(self) -> tuple[Tensors, str] | None:
        return self.make_expected() if self.make_expected else None


def operator_of(path: Path) -> str:
    """Whose cases a file says it has, in `op`; LabError if it does not say."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LabError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise LabError(f"{path}: not JSON: {error}.") from None
    name = found.get("op") if isinstance(found, dict) else None
    if not isinstance(name, str):
        raise LabError(f'{path}: op: is missing: an operator\'s id, as in "ai.onnx.ConvInteger".')
    return name


def load(path: Path, operator: str) -> tuple[Case, ...]:
    """The cases of a test.json; LabError names file, case and place of whatever is wrong."""
    where = f"{operator}/{path.name}"
    data: object = None
    try:
        data = json.loads(path.read_text("utf-8"))
        file = CaseFile.model_validate(data)
    except FileNotFoundError:
        raise LabError(f"{where}: the file is missing.") from None
    except json.JSONDecodeError as error:
        raise LabError(f"{where}: line {error.lineno}: not JSON: {error.msg}.") from None
    except ValidationError as error:
        raise LabError(f"{where}: {first_fault(error, data, 'the file')}") from None
    if file.op not in (None, operator):
        raise LabError(f"{where}: op: must be {operator}, as its folder is called (found: {file.op!r}).")
    names = [source.name for source in file.cases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise LabError(f"{where}: these names stand twice: {', '.join(twice)}.")
    return tuple(_case(source, operator, file.fixtureArrays, where) for source in file.cases)


def _case(source: CaseSource, operator: str, fixtures: Mapping[str, list[Any]], where: str) -> Case:
    domain = operator.rpartition(".")[0]
    opset = Opset(domain, source.opset) if isinstance(source.opset, int) else source.opset
    request = Request(
        operator=operator,
        dtypes=MappingProxyType({role: tensor.dtype for role, tensor in source.inputs.items()}),
        shapes=MappingProxyType({role: tuple(tensor.shape) for role, tensor in source.inputs.items()}),
        attrs=MappingProxyType(source.attrs),
        opset=opset,
    )

    def make(tensors: Mapping[str, TensorSource]) -> Tensors:
        return MappingProxyType(
            {role: tensor_of(t, fixtures, f"{where}: {source.name}.{role}") for role, t in tensors.items()}
        )

    expected = source.expected
    origin = source.provenance.source if source.provenance else "test.json"
    return Case(
        operator=operator,
        name=source.name,
        request=request,
        make_inputs=lambda: make(source.inputs),
        make_expected=(lambda: (make(expected), origin)) if expected is not None else None,
        refused=source.refused,
        why=source.why,
        origin=origin,
    )


def tensor_of(source: TensorSource, fixtures: Mapping[str, list[Any]], where: str) -> Array:
    """The array that a tensor of test.json describes; LabError if a value is none of its dtype's."""
    dtype, shape, data = dtypes.DTYPES.get(source.dtype), tuple(source.shape), source.data
    if dtype is None:
        raise LabError(f"{where}: dtype {source.dtype!r} is unknown (known: {', '.join(dtypes.DTYPES)}).")
    if isinstance(data, Random):
        _check_range(data, dtype, where)
        return generators.draw(data.seed, data.min, data.max, dtype, shape)
    values: list[Any] = data.values if isinstance(data.values, list) else _fixture(data.values, fixtures, where)
    if len(values) != dtypes.numel(shape):
        raise LabError(f"{where}: got {len(values)} values, shape {list(shape)} needs {dtypes.numel(shape)}.")
    if isinstance(data, Bits):
        kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[max(dtype.bits, 8)]
        return dtypes.from_codes(np.array([_code(text, dtype, where) for text in values], kind), dtype, shape)
    return _numbers(values, dtype, where).reshape(shape)


def _check_range(data: Random, dtype: DType, where: str) -> None:
    low, high = data.min, data.max
    if low > high:
        raise LabError(f"{where}: min {low:g} is above max {high:g}.")
    if not dtype.is_float:
        least, most = dtype.limits
        if not (low.is_integer() and high.is_integer() and least <= low and high <= most):
            raise LabError(f"{where}: {low:g} to {high:g} is no range of {dtype.name} ({least} to {most}).")


def _code(text: str, dtype: DType, where: str) -> int:
    try:
        code = int(text, 16)
    except ValueError:
        raise LabError(f"{where}: {text!r} is no hexadecimal number.") from None
    if not 0 <= code < 2**dtype.bits:
        raise LabError(f"{where}: {text!r} does not fit the {dtype.bits} bits of {dtype.name}.")
    return code


_finfo: Any = ml_dtypes.finfo


def _numbers(values: list[Any], dtype: DType, where: str) -> Array:
    """Integers as they are; floats rounded to the dtype. JSON has no infinity or NaN: "inf", "-inf" and "nan" do."""
    try:
        exact = [float(value) if dtype.is_float else int(value) for value in values]
    except (ValueError, OverflowError):
        raise LabError(f"{where}: a value is no number of {dtype.name}.") from None
    if dtype.is_float:
        wide = np.array(exact, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            array = wide.astype(dtype.numpy)
            back = array.astype(np.float64)
        largest = 1.25 * float(_finfo(dtype.numpy).max)  # more than rounds to it
        kept = (np.isnan(wide) == np.isnan(back)) & (np.isinf(wide) == np.isinf(back))
        fits = kept & (~np.isfinite(wide) | (np.abs(wide) <= largest))
    else:
        least, most = dtype.limits
        fits = np.array([least <= n <= most and n == given for n, given in zip(exact, values, strict=True)], bool)
        array = np.array(exact if fits.all() else [], np.int64).astype(dtype.numpy)
    if not fits.all():
        raise LabError(f"{where}: {values[int(np.argmin(fits))]!r} does not fit {dtype.name}.")
    return array


def _fixture(reference: Mapping[str, str], fixtures: Mapping[str, list[Any]], where: str) -> list[Any]:
    name = reference.get("$ref", "").removeprefix("#/fixtureArrays/")
    if name not in fixtures:
        raise LabError(f"{where}: unknown fixture {reference!r} (known: {', '.join(fixtures) or 'none'}).")
    return fixtures[name]


def refuse_test(case: Case, sentence: str) -> bool:
    """Whether a refusal is the one the case asks for."""
    return case.refused is not None and case.refused.lower() in sentence.lower()
