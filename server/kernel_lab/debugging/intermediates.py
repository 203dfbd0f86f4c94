"""What a plan's intermediates should hold, by the reference: its values, laid out as the manifest says of each buffer.

In: a case, a variant, its plan. Out: `Held`s, for those intermediates of which the manifest says which value they hold.
LabError, with the place and both shapes, where value and buffer do not fit. Runs references; knows no operator.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.manifest import UNREAD, Holds, Variant
from kernel_lab.operators.operator import Operator
from kernel_lab.planning.plans import Plan, PlannedBuffer

PADDING_PLACE = -1
UNREAD_PLACE = -2


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """One intermediate. `value`: the reference's name for what it holds, of shape `sizes` along `axes` (empty: the
    buffer's own). `expected`: the buffer's dtype and shape. `places`: for each of its elements the value's element, in
    C order, that lies there; -1 for padding, -2 for padding that is not compared, where `expected` holds 0.
    """

    buffer: str
    value: str
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    expected: Array
    places: Array

    @property
    def read(self) -> Array:
        """bool, flat: which elements are compared."""
        compared: Array = self.places != UNREAD_PLACE
        return compared


def held_by(operator: Operator, case: Case, variant: Variant, plan: Plan) -> Iterator[Held]:
    """What the reference says of the plan's intermediates, in the manifest's order. A buffer without elements, and one
    that no pass of this plan writes, holds nothing.
    """
    if not operator.has_reference or not plan.passes:
        return
    for item in variant.intermediates:
        if item.lab.holds is not None and dtypes.numel(plan.buffer(item.id).shape):
            where = f"{operator.id}/manifest.json: variants[{variant.id}].intermediates[{item.id}].x-lab.holds"
            yield _held(operator, case, item.lab.holds, plan.buffer(item.id), where)


def _held(operator: Operator, case: Case, holds: Holds, buffer: PlannedBuffer, where: str) -> Held:
    known = operator.reference.values
    if holds.value not in known:
        raise LabError(f"{where}: the reference has no value {holds.value!r} (known: {', '.join(known) or 'none'}).")
    value = known[holds.value]
    found = np.asarray(value.of(case.inputs, case.request.attrs))
    axes = value.axes if holds.axes is not None else None
    told = f"{holds.value} is {found.dtype}{list(found.shape)}, {buffer.name} {buffer.dtype}{list(buffer.shape)}"
    if axes is not None and len(axes) != found.ndim:
        raise LabError(f"{where}: {told}, but the reference names {len(axes)} axes: {' '.join(axes)}.")
    if axes is None and (holds.axes is not None or found.shape != buffer.shape):
        raise LabError(f"{where}: {told}; without names of axes on both sides their shapes must be the same.")
    if axes is None:
        places = np.arange(found.size, dtype=np.int32)
    else:
        places = _places(holds.axes or [], buffer.shape, axes, found.shape, f"{where}: {told}")
    outside = places == PADDING_PLACE
    if holds.padding is None and outside.any():
        raise LabError(
            f"{where}: {told}; that leaves {np.count_nonzero(outside)} elements, but no `padding` is stated."
        )
    expected = np.full(places.shape, _padding(holds, case, buffer.dtype, where), dtypes.named(buffer.dtype).numpy)
    expected[~outside] = _as(buffer.dtype, found, f"{where}: {told}").reshape(-1)[places[~outside]]
    if holds.padding == UNREAD:
        places = np.where(outside, np.int32(UNREAD_PLACE), places)
    return Held(buffer.name, holds.value, axes or (), found.shape, expected.reshape(buffer.shape), places)


def _places(
    along: list[str], shape: tuple[int, ...], axes: tuple[str, ...], sizes: tuple[int, ...], told: str
) -> Array:
    """int32, flat: the value's element at each of the buffer's, or PADDING_PLACE."""
    merged: dict[str, list[int]] = {}  # axes of the value that lie together: the buffer's axes that they lie along
    for position, names in enumerate(along):
        merged.setdefault(names, []).append(position)
    order = [name for names in merged for name in names.split()]
    if len(along) != len(shape) or sorted(order) != sorted(axes):
        raise LabError(f"{told}; {along} must place each of {' '.join(axes)}, once, along the buffer's axes.")
    lengths = [math.prod(sizes[axes.index(name)] for name in names.split()) for names in merged]
    rooms = [math.prod(shape[position] for position in positions) for positions in merged.values()]
    for names, length, room in zip(merged, lengths, rooms, strict=True):
        if length > room:
            raise LabError(f"{told}: {length} elements along {names!r} do not fit into {room}.")
    flat = np.arange(math.prod(sizes), dtype=np.int32).reshape(sizes)
    whole = np.full(rooms, PADDING_PLACE, np.int32)
    whole[tuple(map(slice, lengths))] = flat.transpose([axes.index(name) for name in order]).reshape(lengths)
    positions = [position for part in merged.values() for position in part]
    tiled = whole.reshape([shape[position] for position in positions])
    return tiled.transpose(np.argsort(positions)).reshape(-1)


def _padding(holds: Holds, case: Case, dtype: str, where: str) -> Any:
    """What padding holds, in the buffer's dtype; 0 where it is not compared."""
    if isinstance(holds.padding, int):
        return holds.padding
    given = case.inputs.get(holds.padding) if holds.padding else None
    return 0 if given is None else _as(dtype, given.reshape(-1)[:1], f"{where}.padding")[0]


def _as(dtype: str, values: Array, told: str) -> Array:
    """Integers of the same width keep their bits; all else must keep its value."""
    wanted = dtypes.named(dtype)
    given = dtypes.of_array(values)
    if given.bits == wanted.bits and not given.is_float and not wanted.is_float:
        return values.view(wanted.numpy)
    kept = values.astype(wanted.numpy)
    if not np.array_equal(kept.astype(values.dtype), values, equal_nan=given.is_float):
        raise LabError(f"{told}: not every value fits into {dtype}.")
    return kept
