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

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes, generators
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.requests import Opset, Request

Tensors = Mapping[str, Array]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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


def load(path: Path, operator: str) -> tuple[Case, ...]:
    """The cases of a test.json; LabError names file, case and place of whatever is wrong."""
    where = f"{operator}/{path.name}"
    try:
        file = CaseFile.model_validate(json.loads(path.read_text("utf-8")))
    except json.JSONDecodeError as error:
        raise LabError(f"{where}: line {error.lineno}: not JSON: {error.msg}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise LabError(f"{where}: {place}: {first['msg']} (found: {first['input']!r:.80}).") from None
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
    """The array that a tensor of test.json describes."""
    dtype, shape, data = dtypes.named(source.dtype), tuple(source.shape), source.data
    if isinstance(data, Random):
        return generators.draw(data.seed, data.min, data.max, dtype, shape)
    values: list[Any] = data.values if isinstance(data.values, list) else _fixture(data.values, fixtures, where)
    if len(values) != dtypes.numel(shape):
        raise LabError(f"{where}: got {len(values)} values, shape {list(shape)} needs {dtypes.numel(shape)}.")
    if isinstance(data, Bits):
        kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[max(dtype.bits, 8)]
        return dtypes.from_codes(np.array([int(text, 16) for text in values], kind), dtype, shape)
    if dtype.is_float:  # "inf", "-inf" and "nan" are written as text: JSON has no numbers for them
        return np.array([float(value) for value in values], np.float64).astype(dtype.numpy).reshape(shape)
    exact = np.array(values, np.int64)
    array = exact.astype(dtype.numpy).reshape(shape)
    if not np.array_equal(array.astype(np.int64).reshape(-1), exact):
        raise LabError(f"{where}: a value does not fit {dtype.name}.")
    return array


def _fixture(reference: Mapping[str, str], fixtures: Mapping[str, list[Any]], where: str) -> list[Any]:
    name = reference.get("$ref", "").removeprefix("#/fixtureArrays/")
    if name not in fixtures:
        raise LabError(f"{where}: unknown fixture {reference!r} (known: {', '.join(fixtures) or 'none'}).")
    return fixtures[name]


def refuse_test(case: Case, sentence: str) -> bool:
    """Whether a refusal is the one the case asks for."""
    return case.refused is not None and case.refused.lower() in sentence.lower()
