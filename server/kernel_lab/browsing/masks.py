"""What a profile hides of its adapter, as written on a command line: so that every fallback can be run on one machine.

In: the texts of `--mask`, `--limit` and `--subgroups`, and `--emulate-matrices`. Out: a `Mask`. LabError names what is
allowed.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernel_lab.errors import LabError
from kernel_lab.planning.facts import COMPUTE_FEATURES, WEBGPU_DEFAULT_LIMITS

LANGUAGE_FEATURES = (
    "packed_4x8_integer_dot_product",
    "pointer_composite_access",
    "readonly_and_readwrite_storage_textures",
    "subgroup_id",
    "subgroup_uniformity",
    "linear_indexing",
    "uniform_buffer_standard_layout",
    "unrestricted_pointer_parameters",
)
"""WGSL language features that a kernel could use; other names are allowed, too."""

SUBGROUP_SIZES = tuple(2**power for power in range(8))
"""1 to 128: https://www.w3.org/TR/webgpu/#dom-gpuadapterinfo-subgroupminsize"""


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """`hidden`: features and WGSL language features; `limits`: lowered ones; `subgroups`: the range that is claimed;
    `emulate_matrices`: the adapter's subgroup matrices are left unused.
    """

    hidden: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    subgroups: tuple[int, int] | None = None
    emulate_matrices: bool = False


def parse(
    features: Sequence[str], limits: Sequence[str], subgroups: str | None, *, emulate_matrices: bool = False
) -> Mask:
    """The mask that these texts ask for: `shader-f16`, `maxBufferSize=1000000`, `4-128` or `8`."""
    for name in features:
        _refuse_typing_error(name)
    claimed = _subgroups(subgroups) if subgroups else None
    return Mask(tuple(features), dict(_limit(text) for text in limits), claimed, emulate_matrices)


def options(mask: Mask) -> list[str]:
    """The words of a command line that ask for the mask."""
    words = [word for name in mask.hidden for word in ("--mask", name)]
    words += [word for name, value in mask.limits.items() for word in ("--limit", f"{name}={value}")]
    words += ["--subgroups", "{}-{}".format(*mask.subgroups)] if mask.subgroups else []
    return [*words, *(["--emulate-matrices"] if mask.emulate_matrices else [])]


def joined(first: Mask, second: Mask) -> Mask:
    """What both hide; of a limit the lower value, of two ranges of subgroup sizes the second."""
    limits = {**first.limits, **second.limits}
    lowest = {name: min(mask.limits[name] for mask in (first, second) if name in mask.limits) for name in limits}
    return Mask(
        tuple(dict.fromkeys([*first.hidden, *second.hidden])),
        lowest,
        second.subgroups or first.subgroups,
        first.emulate_matrices or second.emulate_matrices,
    )


def _refuse_typing_error(name: str) -> None:
    """A mask that hides nothing would make a run look like a fallback's; a name nobody knows may be a new feature."""
    known = (*COMPUTE_FEATURES, *LANGUAGE_FEATURES)
    near = difflib.get_close_matches(name, known, 1, 0.8)
    if name not in known and near:
        raise LabError(f"mask: {name!r} is no feature; did you mean {near[0]!r}?")


def _limit(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if name not in WEBGPU_DEFAULT_LIMITS:
        raise LabError(f"limit: unknown name {name!r} (known: {', '.join(WEBGPU_DEFAULT_LIMITS)}).")
    if not equals or not re.fullmatch(r"[0-9_]+", value):
        raise LabError(f"limit: got {text!r}, wanted {name}=NUMBER.")
    return name, int(value)


def _subgroups(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    sizes = [int(part) for part in (low, high if dash else low) if part.isdecimal()]
    if len(sizes) != 2 or not set(sizes) <= set(SUBGROUP_SIZES) or sizes[0] > sizes[1]:
        allowed = ", ".join(map(str, SUBGROUP_SIZES))
        raise LabError(f"subgroups: got {text!r}, wanted LOW-HIGH, such as 4-128, of the sizes {allowed}.")
    return sizes[0], sizes[1]
