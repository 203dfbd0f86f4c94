"""Step 7: a plan and its inputs become one frame; a result frame becomes a RunResult (step 9).

In: plans, packed inputs, digests of the expected bytes. Out: wire messages and `RunResult`s. Pure.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Array
from kernel_lab.planning.plans import Plan
from kernel_lab.serving import wire

Status = Literal[
    "ok", "compile_error", "validation_error", "out_of_memory", "device_lost", "timeout", "crash", "harness_error"
]
INLINE_BYTES = 256 * 1024
"""Larger inputs go by GET: a fetch costs 4 to 6 ms however small it is, but moves more bytes a second."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What one run needs besides the page: packed inputs, and the expected bytes' digests (none: bytes always come
    back).
    """

    plan: Plan
    inputs: Mapping[str, bytes]
    expected: Mapping[str, str]
    deadline_ms: int
    read: tuple[str, ...] = ()
    timing: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """Something the browser said: a compile message, a validation error. `line` and `column` (from 1) are the rendered
    WGSL's.
    """

    kind: str
    text: str
    label: str = ""
    line: int = 0
    column: int = 0
    offset: int = 0
    length: int = 0
    scope: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """What came back. `status` ok means only that bytes came back; the verdict is made elsewhere.

    `equal`: outputs whose bytes' digest equals the expected one. `outputs`: the others, as arrays. `read`: other
    buffers asked for. `digests`: SHA-256 of each output's words. `damaged`: buffers whose guard words were overwritten.
    `untidy`: packed outputs with bits set behind the last element, which must be 0.
    """

    status: Status
    equal: frozenset[str] = frozenset()
    outputs: Mapping[str, Array] = field(default_factory=dict)
    read: Mapping[str, Array] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    untidy: frozenset[str] = frozenset()
    messages: tuple[Message, ...] = ()
    timings: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    attempts: int = 1


def job_of(
    plan: Plan, inputs: Mapping[str, Array], expected: Mapping[str, Array] | None, deadline_ms: int,
    read: tuple[str, ...] = (), timing: bool = False,
) -> Job:  # fmt: skip
    """Packs the inputs as the plan says, and digests what is expected of the outputs."""
    packed = {
        b.name: dtypes.pack(inputs[b.name], b.packing) for b in plan.buffers if b.kind == "input" and b.name in inputs
    }
    digests = {o.name: digest_of(expected[o.name], o.packing) for o in plan.outputs} if expected is not None else {}
    return Job(plan, packed, digests, deadline_ms, read, timing)


def digest_of(array: Array, packing: dtypes.Packing) -> str:
    """SHA-256 of the packed words."""
    return hashlib.sha256(dtypes.pack(array, packing)).hexdigest()


def plan_header(plan: Plan, timing: bool = False) -> dict[str, Any]:
    """The plan as the harness reads it."""
    features = [*plan.features, *(["timestamp-query"] if timing and "timestamp-query" not in plan.features else [])]
    return {
        "label": plan.label,
        "device": {"features": features, "limits": dict(plan.limits)},
        "buffers": [
            {
                "name": b.name, "kind": b.kind, "bytes": b.bytes, "guard_bytes": b.guard_bytes, "fill": b.fill,
                "dtype": b.dtype, "shape": list(b.shape), "packing": b.packing,
                **({"words": list(b.words)} if b.kind == "uniform" else {}),
            }
            for b in plan.buffers
        ],
        "passes": [
            {
                "label": p.label, "wgsl": p.wgsl.digest, "entry_point": p.entry_point, "workgroups": list(p.workgroups),
                "bindings": [{"binding": b.binding, "buffer": b.buffer, "type": b.type} for b in p.bindings],
            }
            for p in plan.passes
        ],
        "outputs": [
            {
                "name": o.name, "buffer": o.buffer, "dtype": o.dtype, "shape": list(o.shape), "packing": o.packing,
                "bytes": o.bytes,
            }
            for o in plan.outputs
        ],
    }  # fmt: skip


def wgsl_texts(plan: Plan, known: set[str]) -> dict[str, str]:
    """The texts the page has not been sent; they count as sent from now on."""
    new = {p.wgsl.digest: p.wgsl.text for p in plan.passes if p.wgsl.digest not in known}
    known.update(new)
    return new


def run_frame(job: Job, number: int, known: set[str], prefix: str) -> tuple[bytes, dict[str, bytes]]:
    """The message that starts a run, and the inputs to be served by GET, keyed by path. `known`: WGSL the page has."""
    inputs: list[dict[str, Any]] = []
    blobs: list[wire.Blob] = []
    served: dict[str, bytes] = {}
    for name, data in job.inputs.items():
        entry: dict[str, Any] = {"buffer": name, "bytes": len(data)}
        if len(data) <= INLINE_BYTES:
            entry["blob"] = len(blobs)
            blobs.append(data)
        else:
            entry["url"] = f"{prefix}/{number}/{name}"
            served[entry["url"]] = data
        inputs.append(entry)
    header = {
        "type": "run",
        "id": number,
        "plan": plan_header(job.plan, job.timing),
        "wgsl": wgsl_texts(job.plan, known),
        "inputs": inputs,
        "expected": dict(job.expected),
        "read": list(job.read),
        "timing": job.timing,
        "deadline_ms": job.deadline_ms,
    }
    return wire.encode(header, blobs), served


def result_of(header: Mapping[str, Any], blobs: list[memoryview], plan: Plan) -> RunResult:
    """A result frame as a RunResult; arrays are views into the message."""
    outputs: dict[str, Array] = {}
    untidy = set()
    planned = {output.name: output for output in plan.outputs}
    for entry in header.get("outputs", []):
        output = planned[entry["name"]]
        if entry.get("blob") is not None:
            data = blobs[entry["blob"]]
            outputs[output.name] = dtypes.unpack(data, dtypes.named(output.dtype), output.shape, output.packing)
            if output.packing == "packed" and not dtypes.ends_clear(data, dtypes.named(output.dtype), output.shape):
                untidy.add(output.name)
    read = {}
    for entry in header.get("read", []):
        buffer = plan.buffer(entry["buffer"])
        read[buffer.name] = dtypes.unpack(
            blobs[entry["blob"]], dtypes.named(buffer.dtype), buffer.shape, buffer.packing
        )
    return RunResult(
        status=header["status"],
        equal=frozenset(entry["name"] for entry in header.get("outputs", []) if entry.get("equal")),
        outputs=outputs,
        read=read,
        digests={entry["name"]: entry["digest"] for entry in header.get("outputs", []) if entry.get("digest")},
        damaged=tuple(header.get("damaged", [])),
        untidy=frozenset(untidy),
        messages=tuple(_message(entry) for entry in header.get("messages", [])),
        timings=header.get("timings", {}),
        reason=header.get("lost") or header.get("reason") or "",
    )


def _message(entry: Mapping[str, Any]) -> Message:
    return Message(
        kind=entry.get("kind", "error"),
        text=entry.get("text", ""),
        label=entry.get("pass") or "",
        scope=entry.get("scope") or "",
        line=entry.get("line") or 0,
        column=entry.get("column") or 0,
        offset=entry.get("offset") or 0,
        length=entry.get("length") or 0,
    )
