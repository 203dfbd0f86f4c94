"""What a model's inputs are fed with: given arrays, or seeded random ones of the stated shapes.

In: a graph, an .npz by name, a seed, shapes by name. Out: arrays by name, and one line about each. A shape with
symbolic dimensions must be stated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Array

Dim = int | str


@dataclass(frozen=True, slots=True, eq=False)
class Feeding:
    """`arrays`: inputs by name, from the file `given`; `shapes`: stated for the rest, which are random by `seed`."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seed: int = 0
    given: Path | None = None

    @property
    def words(self) -> list[str]:
        """The same on the command line."""
        shapes = [f"{name}={','.join(map(str, shape))}" for name, shape in self.shapes.items()]
        words = ["--inputs", str(self.given)] if self.given else []
        words += ["--seed", str(self.seed)] if self.seed else []
        return words + [word for shape in shapes for word in ("--shape", shape)]


def feeding(npz: Path | None, seed: int, shapes: Sequence[str]) -> Feeding:
    """From the command line: a file, a seed, `NAME=1,3,64,64`."""
    arrays: dict[str, Array] = {}
    if npz is not None:
        try:
            with np.load(npz, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, AttributeError) as error:
            raise LabError(f"--inputs {npz}: cannot be read as .npz: {error}.") from None
    return Feeding(arrays, dict(_shape(text) for text in shapes), seed, npz)


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, dims = text.rpartition("=")
    try:
        shape = tuple(int(dim) for dim in dims.split(",") if dim)
    except ValueError:
        shape = (-1,)
    if not name or any(dim < 0 for dim in shape):
        raise LabError(f"--shape {text!r}: must be NAME=sizes, for instance x=1,3,64,64.")
    return name, shape


def feeds(graph: onnx.GraphProto, feeding: Feeding) -> tuple[dict[str, Array], list[str]]:
    """An array for every input without a default, and what each of them is."""
    defaults = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in defaults or info.name in feeding.arrays]
    open_shapes = [
        f"{info.name} [{', '.join(map(str, _dims(info)))}]"
        for info in inputs
        if info.name not in feeding.arrays and info.name not in feeding.shapes and not _is_fixed(_dims(info))
    ]
    if open_shapes:
        raise LabError(
            f"the sizes of {', '.join(open_shapes)} are open: state them (--shape {open_shapes[0].split(' [')[0]}=…, "
            "once per input) or give the inputs (--inputs FILE.npz)."
        )
    made, said = {}, []
    for index, info in enumerate(inputs):
        if info.name in feeding.arrays:
            array, source = feeding.arrays[info.name], f"from {feeding.given.name if feeding.given else 'the caller'}"
        else:
            array, source = _random(info, feeding, index)
        _check(info, array)
        made[info.name] = array
        said.append(f"input {info.name}: {array.dtype}{list(array.shape)}, {source}")
    names = {info.name for info in graph.input}
    strange = [name for name in (*feeding.arrays, *feeding.shapes) if name not in names]
    said += [f"{name} is no input of this model (its inputs: {', '.join(names)}): left out" for name in strange]
    return made, said


def _dims(info: onnx.ValueInfoProto) -> list[Dim]:
    """The stated dimensions; text for one without a size, and for an open rank."""
    if info.type.WhichOneof("value") != "tensor_type":
        raise LabError(f"input {info.name}: is no tensor; only tensors can be fed.")
    if not info.type.tensor_type.HasField("shape"):
        return ["of any rank"]
    dims = info.type.tensor_type.shape.dim
    return [dim.dim_value if dim.WhichOneof("value") == "dim_value" else dim.dim_param or "?" for dim in dims]


def _is_fixed(dims: list[Dim]) -> bool:
    return all(isinstance(dim, int) for dim in dims)


def _random(info: onnx.ValueInfoProto, feeding: Feeding, index: int) -> tuple[Array, str]:
    """Integers of up to 16 bits over their whole range, wider ones and truth values 0 or 1 (they are often indices or
    masks), floats in [0, 1)."""
    shape = feeding.shapes[info.name] if info.name in feeding.shapes else tuple(int(dim) for dim in _dims(info))
    generator = np.random.default_rng([feeding.seed, index])
    known = dtypes.of_code(info.type.tensor_type.elem_type)
    if known is not None and not known.is_float and known.bits <= 16:
        codes = generator.integers(0, 1 << known.bits, shape, np.uint16 if known.bits == 16 else np.uint8)
        return dtypes.from_codes(codes, known, shape), f"random by seed {feeding.seed}"
    dtype = known.numpy if known is not None else onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if dtype.kind in "iub":
        return generator.integers(0, 2, shape).astype(dtype), f"random 0 or 1 by seed {feeding.seed}"
    if known is None and dtype.kind != "f":
        raise LabError(f"input {info.name}: {dtype} cannot be made up: give it (--inputs FILE.npz).")
    return generator.random(shape).astype(dtype), f"random in [0, 1) by seed {feeding.seed}"


def _check(info: onnx.ValueInfoProto, array: Array) -> None:
    dtype, dims = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type), _dims(info)
    fits = len(dims) == array.ndim and all(
        isinstance(dim, str) or dim == size for dim, size in zip(dims, array.shape, strict=True)
    )
    if array.dtype != dtype or (info.type.tensor_type.HasField("shape") and not fits):
        wanted = f"{dtype}[{', '.join(map(str, dims))}]"
        raise LabError(f"input {info.name}: got {array.dtype}{list(array.shape)}, but the model takes {wanted}.")
