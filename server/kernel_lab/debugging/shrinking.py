"""Smaller cases than a given one: the steps that a reduction tries.

In: a case, with its real inputs. Out: cases, likely ones first, made by slicing its tensors, dropping attributes and
inputs, and simplifying values. Pure. Nothing here knows an operator: sizes that must change together are found by being
equal, multiples or counts of blocks of each other, and whether a request is valid is for the caller's `valid` to say.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.requests import Attribute, request_of

Valid = Callable[[Case], bool]

MOST_LINKS = 8
"""Sizes that may change with one: each set of them is asked for, so 2^8 at most."""
MOST_SETS = 4
"""Sets of sizes that are tried for one change; small sets come first."""


@dataclass(frozen=True, slots=True)
class Place:
    """A size: an axis of an input, or an integer attribute (`index` None) or element of one."""

    name: str
    index: int | None
    is_axis: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """What a place's size becomes; for an axis, from which element on."""

    place: Place
    to: int
    start: int


def case_with(case: Case, inputs: Mapping[str, Array], attrs: Mapping[str, Attribute]) -> Case:
    """The case with other tensors and attributes; the operator's reference says what is right."""
    request = request_of(case.operator, inputs, attrs, case.request.opset)
    kept = MappingProxyType(dict(inputs))
    return Case(case.operator, case.name, request, lambda: kept, None, None, case.why, case.origin, case.repeat)


Move = Callable[[Case], Iterator[Case]]
"""One way to make any case smaller: the cases to try, likely ones first. Nothing where it does not apply."""


def size_moves(case: Case, valid: Valid) -> list[Move]:
    """Towards fewer attributes, inputs and elements, and smaller attributes: what takes most comes first."""
    places = sorted(_sizes(case).items(), key=lambda item: (-item[1], not item[0].is_axis))
    return [
        _without_attributes,
        *(partial(_without_attribute, name) for name in case.request.attrs),
        *(partial(_without_input, role) for role in case.inputs),
        *(partial(_smaller, place, valid) for place, _ in places),
        _flatter,
    ]


def _without_attributes(case: Case) -> Iterator[Case]:
    if len(case.request.attrs) > 1:
        yield case_with(case, case.inputs, {})


def _without_attribute(name: str, case: Case) -> Iterator[Case]:
    if name in case.request.attrs:
        yield case_with(case, case.inputs, {key: v for key, v in case.request.attrs.items() if key != name})


def _without_input(role: str, case: Case) -> Iterator[Case]:
    if role in case.inputs:
        yield case_with(case, {key: v for key, v in case.inputs.items() if key != role}, case.request.attrs)


def _smaller(place: Place, valid: Valid, case: Case) -> Iterator[Case]:
    for to in _targets(_sizes(case).get(place, 0), place.is_axis):
        yield from _cuts(case, place, to, valid)


def _flatter(case: Case) -> Iterator[Case]:
    """Fewer axes: an axis of size 1 dropped, of as many inputs as can be; one element of a vector as a scalar."""
    inputs, attrs = case.inputs, case.request.attrs
    thin = {role: max(i for i, n in enumerate(a.shape) if n == 1) for role, a in inputs.items() if 1 in a.shape}
    for count in range(len(thin), 0, -1):
        for roles in itertools.combinations(thin, count):
            flat = {role: np.squeeze(inputs[role], axis=thin[role]) for role in roles}
            yield case_with(case, {**inputs, **flat}, attrs)
    for role, array in inputs.items():
        if array.ndim == 1 and array.size > 1:
            for at in (0, array.size - 1):
                yield case_with(case, {**inputs, role: array[at : at + 1].reshape(())}, attrs)


def _sizes(case: Case) -> dict[Place, int]:
    """Every size that can become smaller, and those that it may be linked to."""
    found = {
        Place(role, axis, True): size
        for role, array in case.inputs.items()
        for axis, size in enumerate(array.shape)
        if size > 1
    }
    for name, value in case.request.attrs.items():
        if _whole(value):
            found[Place(name, None, False)] = value
        elif isinstance(value, list | tuple):
            found.update({Place(name, i, False): part for i, part in enumerate(value) if _whole(part)})
    return found


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _targets(size: int, is_axis: bool) -> list[int]:
    """What a size may become: the least, half, then a power of two less, which keeps it off or on a multiple of one."""
    least = 1 if is_axis else 0
    less = [size - (1 << shift) for shift in reversed(range(size.bit_length()))]
    return list(dict.fromkeys(to for to in [least, 1, size // 2, *less] if least <= to < size))


def _cuts(case: Case, place: Place, to: int, valid: Valid) -> Iterator[Case]:
    """The cases in which a place, and what is linked to it, becomes that small: its first elements, its last ones, and
    those in the middle.
    """
    size = _sizes(case)[place]
    starts = dict.fromkeys((0, size - to, (size - to) // 2, *(i * to for i in range(1, min(4, size // max(to, 1))))))
    tried = 0
    for linked in _link_sets(case, place, to):
        if not valid(_cut(case, [_follow(one, kind, to, 0) for one, kind in linked])):
            continue
        for start in starts:
            yield _cut(case, [_follow(one, kind, to, start) for one, kind in linked])
        tried += 1
        if tried == MOST_SETS:
            return


Kind = tuple[str, int]
"""How a size follows another: "times" k, "over" k, or "blocks" of k (rounded up)."""


def _link_sets(case: Case, place: Place, to: int) -> Iterator[list[tuple[Place, Kind]]]:
    """Sets of places that change together, the seed first in each: small sets first, but all equal sizes early."""
    sizes = _sizes(case)
    size = sizes[place]
    seed: tuple[Place, Kind] = (place, ("times", 1))
    links = [
        (other, kind)
        for other, value in sizes.items()
        if other != place and (kind := _kind(size, value, to, sizes)) is not None
    ]
    links.sort(key=lambda link: (link[1] != ("times", 1), not link[0].is_axis))
    equal = [link for link in links if link[1] == ("times", 1)]
    yield [seed]
    if len(equal) > 1:
        yield [seed, *equal]
    for count in range(1, min(len(links), MOST_LINKS) + 1):
        for chosen in itertools.combinations(links[:MOST_LINKS], count):
            yield [seed, *chosen]


def _kind(size: int, other: int, to: int, sizes: Mapping[Place, int]) -> Kind | None:
    if other % size == 0:
        return ("times", other // size)
    if size % other == 0 and to % (size // other) == 0:
        return ("over", size // other)
    for place, block in sizes.items():
        if not place.is_axis and block > 1 and -(-size // block) == other:
            return ("blocks", block)
    return None


def _follow(place: Place, kind: Kind, to: int, start: int) -> Cut:
    name, factor = kind
    if name == "times":
        return Cut(place, factor * to, factor * start)
    return Cut(place, -(-to // factor), start // factor)


def _cut(case: Case, cuts: list[Cut]) -> Case:
    inputs = dict(case.inputs)
    attrs: dict[str, Any] = dict(case.request.attrs)
    for cut in cuts:
        name, index = cut.place.name, cut.place.index
        if cut.place.is_axis:
            array, axis = inputs[name], index or 0
            start = min(cut.start, array.shape[axis] - cut.to)
            inputs[name] = array[(slice(None),) * axis + (slice(start, start + cut.to),)]
        elif index is None:
            attrs[name] = cut.to
        else:
            attrs[name] = [*attrs[name][:index], cut.to, *attrs[name][index + 1 :]]
    return case_with(case, inputs, attrs)


# --- values


def value_moves(case: Case, _: Valid) -> list[Move]:
    """Towards 0, then 1, then smaller magnitudes: whole tensors first, blocks, single elements; small tensors first."""
    roles = sorted(case.inputs, key=lambda role: case.inputs[role].size)
    return [
        partial(_simpler, role, block, make)
        for make in (_constant(0.0), _constant(1.0), np.abs, _part(0.5), _part(0.75), _one_less)
        for role in roles
        for block in _blocks(case.inputs[role].size)
    ]


def _simpler(role: str, block: slice, make: Callable[[Array], Array], case: Case) -> Iterator[Case]:
    changed = _changed(case.inputs[role], block, make)
    if changed is not None:
        yield case_with(case, {**case.inputs, role: changed}, case.request.attrs)


def _blocks(size: int) -> Iterator[slice]:
    length = size
    while length >= 1:
        yield from (slice(at, at + length) for at in range(0, size, length))
        length = 0 if length == 1 else -(-length // 2)


def _changed(array: Array, block: slice, make: Callable[[Array], Array]) -> Array | None:
    """The array with the elements of a block replaced where that makes them simpler; None if it does nowhere."""
    dtype = array.dtype
    flat = array.reshape(-1).copy()
    old = flat[block].astype(np.float64)
    with np.errstate(all="ignore"):
        new = make(old).astype(dtype)
        better = complexity(new.astype(np.float64)) < complexity(old)
    if not better.any():
        return None
    part = flat[block]
    part[better] = new[better]
    flat[block] = part
    return flat.reshape(array.shape)


def complexity(values: Array) -> Array:
    """What a person would rather read: 0, then 1, then small whole numbers; negative after positive ones; what is no
    whole number after those, and what is no number last.
    """
    magnitude = np.abs(values)
    finite = np.isfinite(values)
    broken = finite & (np.where(finite, values, 0) % 1 != 0)
    found = np.where(magnitude == 0, 0.0, np.where(values == 1, 1.0, 2 + magnitude))
    found = found + np.where(broken, 0.75, 0) + np.where(np.signbit(values), 0.25, 0)
    return np.where(finite, found, np.inf)


def _constant(value: float) -> Callable[[Array], Array]:
    return lambda old: np.full(old.shape, value)


def _part(factor: float) -> Callable[[Array], Array]:
    return lambda old: np.where(np.isfinite(old), np.trunc(old * factor) + 0.0, 1.0)


def _one_less(old: Array) -> Array:
    return np.where(np.isfinite(old), np.trunc(old - np.sign(old)) + 0.0, 1.0)
