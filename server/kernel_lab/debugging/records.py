"""What a debug run writes: records in one buffer, each of one place in the WGSL, one invocation and one value.

In: the words of that buffer, and the places (`Site`) by number. Out: `Record`s in program order, and how many did not
fit. Pure. The WGSL that writes them stands here, too, beside what reads them.

An invocation counts its own records, so that its order is the program's whatever the others do. Between invocations no
order is claimed: theirs are sorted by workgroup and local index.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kernel_lab.operators.dtypes import Array
from kernel_lab.planning.includes import Origin
from kernel_lab.planning.probes import ValueType

CAPACITY = 8192
"""Records that a run keeps: 416 KiB. An invocation's first ones are kept, of several invocations any."""
RECORD_WORDS = 13
"""Place, order, workgroup_id (3), local_invocation_index, global_invocation_id (3), value (4)."""
BUFFER_WORDS = 1 + CAPACITY * RECORD_WORDS

Triple = tuple[int, int, int]
Scalar = bool | int | float
Value = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Whose probes a debug run records. `global`: the invocation of that global_invocation_id; `workgroup`: that of a
    workgroup_id with a local_invocation_index; `all`: every one.
    """

    mode: Literal["global", "workgroup", "all", "none"]
    place: Triple = (0, 0, 0)
    local_index: int = 0

    def words(self, index: int = 0, components: int = 0) -> tuple[int, ...]:
        """As `LabChoice` has it. `index`, `components`: the element whose stores are recorded; 0: none."""
        mode = ("none", "global", "workgroup", "all").index(self.mode)
        return (mode, self.local_index, index, components, *self.place, 0)


EVERY = Choice("all")
NOBODY = Choice("none")


@dataclass(frozen=True, slots=True)
class Invocation:
    """Who wrote a record."""

    workgroup_id: Triple
    local_invocation_index: int
    global_invocation_id: Triple

    @property
    def choice(self) -> Choice:
        return Choice("workgroup", self.workgroup_id, self.local_invocation_index)

    @property
    def json(self) -> dict[str, Any]:
        return {
            "workgroup_id": list(self.workgroup_id),
            "local_invocation_index": self.local_invocation_index,
            "global_invocation_id": list(self.global_invocation_id),
        }

    def __str__(self) -> str:
        place = f"workgroup {list(self.workgroup_id)}, local index {self.local_invocation_index}"
        return f"{place}, global id {list(self.global_invocation_id)}"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the WGSL that writes records. `name`: a probe's. `text`: its WGSL. `type`: of its value, if it has
    one.
    """

    label: str
    name: str
    text: str
    origin: Origin | None
    type: ValueType | None = None

    @property
    def json(self) -> dict[str, Any]:
        place = {"file": self.origin.file, "line": self.origin.line} if self.origin else {"file": None, "line": None}
        return {"pass": self.label.rpartition(":")[2], **place, "text": self.text}


@dataclass(frozen=True, slots=True)
class Record:
    """`order`: among its invocation's records in one pass, from 0. `words`: of its value."""

    site: Site
    invocation: Invocation
    order: int
    words: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Records:
    """`lost`: how many more were written than the buffer holds."""

    kept: tuple[Record, ...] = field(default=())
    lost: int = 0


def decode(words: Array, sites: Sequence[Site]) -> Records:
    """The buffer's records: by pass, then by invocation, each in program order."""
    written = int(words[0])
    kept = min(written, CAPACITY)
    rows = words[1 : 1 + kept * RECORD_WORDS].reshape(kept, RECORD_WORDS)
    labels = list(dict.fromkeys(site.label for site in sites))
    found = [_record(row, sites) for row in rows.tolist()]
    found.sort(key=lambda record: (labels.index(record.site.label), *_order(record)))
    return Records(tuple(found), written - kept)


def value_of(words: Sequence[int], kind: ValueType) -> Value:
    """A value from its words: numbers as Python has them, a vector as a tuple."""
    parts = tuple(_SCALARS[kind.scalar](word) for word in words[: kind.width])
    return parts if kind.width > 1 else parts[0]


def _record(row: Sequence[int], sites: Sequence[Site]) -> Record:
    number, order, x, y, z, local_index, gx, gy, gz, *words = row
    a, b, c, d = words
    return Record(sites[number], Invocation((x, y, z), local_index, (gx, gy, gz)), order, (a, b, c, d))


def _order(record: Record) -> tuple[int, ...]:
    x, y, z = record.invocation.workgroup_id
    return (z, y, x, record.invocation.local_invocation_index, record.order)


_SCALARS: dict[str, Callable[[int], Scalar]] = {
    "u32": int,
    "i32": lambda word: word - (1 << 32) if word >> 31 else word,
    "bool": bool,
    "f32": lambda word: float(np.uint32(word).view(np.float32)),
    "f16": lambda word: float(np.uint16(word & 0xFFFF).view(np.float16)),
}

_WORD_OF = {
    "u32": "{}",
    "i32": "bitcast<u32>({})",
    "bool": "select(0u, 1u, {})",
    "f32": "bitcast<u32>({})",
    "f16": "bitcast<u32>(vec2<f16>({}, 0h))",
}


def function_of(kind: ValueType) -> str:
    """The name of the WGSL function that a probe of that type calls."""
    return f"lab_probe_{kind.scalar}" if kind.width == 1 else f"lab_probe_vec{kind.width}_{kind.scalar}"


def wgsl(record_binding: int, choice_binding: int, kinds: Collection[ValueType]) -> str:
    """The declarations that an instrumented text ends with. None returns early: so control flow is as uniform behind a
    call as before it.
    """
    probes = "".join(_probe(kind) for kind in sorted(set(kinds), key=str))
    return f"""
struct LabRecords {{ count: atomic<u32>, words: array<u32, {BUFFER_WORDS - 1}>, }}
struct LabChoice {{ mode: u32, local_index: u32, index: u32, components: u32, place: vec3<u32>, }}
@group(0) @binding({record_binding}) var<storage, read_write> lab_records: LabRecords;
@group(0) @binding({choice_binding}) var<uniform> lab_choice: LabChoice;
var<private> lab_chosen: bool;
var<private> lab_order: u32;
var<private> lab_workgroup: vec3<u32>;
var<private> lab_local: u32;
var<private> lab_global: vec3<u32>;
fn lab_begin(workgroup: vec3<u32>, local: u32, global: vec3<u32>) {{
  lab_workgroup = workgroup;
  lab_local = local;
  lab_global = global;
  lab_chosen = lab_choice.mode == 3u
    || (lab_choice.mode == 1u && all(global == lab_choice.place))
    || (lab_choice.mode == 2u && all(workgroup == lab_choice.place) && local == lab_choice.local_index);
}}
fn lab_record(site: u32, value: vec4<u32>) {{
  let slot = atomicAdd(&lab_records.count, 1u);
  if (slot < {CAPACITY}u) {{
    let first = slot * {RECORD_WORDS}u;
    lab_records.words[first] = site;
    lab_records.words[first + 1u] = lab_order;
    for (var i = 0u; i < 3u; i++) {{
      lab_records.words[first + 2u + i] = lab_workgroup[i];
      lab_records.words[first + 6u + i] = lab_global[i];
    }}
    lab_records.words[first + 5u] = lab_local;
    for (var i = 0u; i < 4u; i++) {{
      lab_records.words[first + 9u + i] = value[i];
    }}
  }}
  lab_order += 1u;
}}
fn lab_store(site: u32, index: u32, components: u32) -> u32 {{
  if (index == lab_choice.index && (components & lab_choice.components) != 0u) {{
    lab_record(site, vec4<u32>());
  }}
  return index;
}}
{probes}"""


def _probe(kind: ValueType) -> str:
    parts = ["value"] if kind.width == 1 else [f"value.{member}" for member in "xyzw"[: kind.width]]
    words = [_WORD_OF[kind.scalar].format(part) for part in parts] + ["0u"] * (4 - len(parts))
    return f"""fn {function_of(kind)}(site: u32, value: {kind}) {{
  if (lab_chosen) {{
    lab_record(site, vec4<u32>({", ".join(words)}));
  }}
}}
"""
