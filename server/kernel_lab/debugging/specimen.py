"""A specimen: one case on one variant laid open, with all that the debug page shows of it before it runs.

In: an operator, a case, a device's facts, maybe a variant. Out: a header of JSON and blobs, one message of the wire
format (serving/wire.py). Pure but for reading templates.
"""

from collections.abc import Iterator
from typing import Any

from kernel_lab import line
from kernel_lab.debugging import intermediates
from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes
from kernel_lab.operators.cases import Case, Tensors
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import includes, selection
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Refused, Scope
from kernel_lab.serving import frames

Specimen = tuple[dict[str, Any], list[bytes]]


def specimen(operator: Operator, case: Case, facts: DeviceFacts, variant: str | None = None) -> Specimen:
    """The case on the variant that is named, or else selected; `refused`, or `unplanned`, with a sentence where there
    is nothing to run. LabError if there is no such variant, or a template is at fault.
    """
    scope = line.check(operator, case)
    header = {"query": case.query, "operator": operator.id, "case": case.name, "why": case.why, **_request(case)}
    header["masked"] = list(facts.masked)
    if isinstance(scope, Refused):
        return {**header, "refused": scope.sentence}, []
    decisions = line.decide(scope, facts)
    header["decisions"] = [decision.json for decision in decisions]
    first = selection.selected(decisions)
    header["selected"] = first.variant.id if first else None
    chosen = selection.forced(decisions, variant) if variant else first
    if chosen is None or not chosen.can_run:
        told = "no variant can run this request here." if chosen is None else f"{chosen.variant.id}: {chosen.reason}"
        return {**header, "unplanned": told}, []
    planned = line.plan(scope, chosen, facts)
    expected, source = line.expected_of(operator, case)
    job = frames.job_of(planned, case.inputs, expected, line.DEADLINE_MS)
    blobs: list[bytes] = []

    def kept(data: bytes) -> int:
        blobs.append(data)
        return len(blobs) - 1

    header |= {
        "variant": chosen.variant.id,
        "description": chosen.variant.description,
        "emulated": planned.emulated,
        "plan": frames.plan_header(planned),
        "fields": {buffer.name: list(buffer.fields) for buffer in planned.buffers if buffer.fields},
        "passes": [_pass(planned, index) for index in range(len(planned.passes))],
        "wgsl": {item.wgsl.digest: item.wgsl.text for item in planned.passes},
        "templates": dict(_templates(operator, planned)),
        "inputs": [{"buffer": name, "blob": kept(data)} for name, data in job.inputs.items()],
        "tensors": _tensors(scope, case.inputs),
        "expected": [
            {
                "name": output.name,
                "digest": job.expected[output.name],
                "blob": kept(dtypes.pack(expected[output.name], output.packing)),
            }
            for output in planned.outputs
        ],
        "expected_from": source,
        "held": [
            {
                "buffer": item.buffer, "value": item.value, "axes": list(item.axes), "sizes": list(item.sizes),
                "blob": kept(dtypes.pack(item.expected)), "places": kept(item.places.tobytes()),
            }
            for item in intermediates.held_by(operator, case, chosen.variant, planned)
        ],
    }  # fmt: skip
    return header, blobs


def _request(case: Case) -> dict[str, Any]:
    request = case.request
    shapes = {role: list(shape) for role, shape in request.shapes.items()}
    return {"dtypes": dict(request.dtypes), "shapes": shapes, "attrs": dict(request.attrs)}


def _pass(plan: Plan, index: int) -> dict[str, Any]:
    """What a pass has beside its plan: where each line of its WGSL comes from."""
    item = plan.passes[index]
    origins = [None if origin is None else [origin.file, origin.line] for origin in item.wgsl.origins]
    return {"name": item.label.rpartition(":")[2], "template": item.template, "origins": origins}


def _templates(operator: Operator, plan: Plan) -> Iterator[tuple[str, str]]:
    """The whole text of each file that a line comes from."""
    names = {origin.file: None for item in plan.passes for origin in item.wgsl.origins if origin is not None}
    for name in names:
        yield name, includes.find(name, operator.template_folders).read_text("utf-8")


def _tensors(scope: Scope, inputs: Tensors) -> dict[str, Any]:
    """Dtype and shape of every input and output of the operator, by role: a buffer may hold it in another layout."""
    given = {r: {"dtype": dtypes.of_array(array).name, "shape": list(array.shape)} for r, array in inputs.items()}
    return given | {r: {"dtype": one.dtype, "shape": list(one.shape)} for r, one in scope.outputs.items()}


def element(operator: Operator, case: Case, output: str, index: tuple[int, ...]) -> dict[str, Any]:
    """One element of an output: the input elements that feed it, and the reference's way to its value. LabError if the
    index lies outside.
    """
    expected, source = line.expected_of(operator, case)
    if output not in expected:
        raise LabError(f"output {output!r}: there are {', '.join(expected)}.")
    _inside(output, index, expected[output].shape)
    told: dict[str, Any] = {
        "output": output, "index": list(index), "expected": str(expected[output][index]), "expected_from": source,
        "fed": {}, "steps": None,
    }  # fmt: skip
    if not operator.has_reference:
        return told
    reference = operator.reference
    if reference.inputs_of is not None:
        fed = reference.inputs_of(index, case.inputs, case.request.attrs)
        told["fed"] = {
            role: [{"index": list(place), "value": str(case.inputs[role][place])} for place in places]
            for role, places in fed.items()
        }
    if reference.steps_of is not None:
        told["steps"] = reference.steps_of(index, case.inputs, case.request.attrs)
    return told


def value(operator: Operator, case: Case, name: str, index: tuple[int, ...]) -> dict[str, Any]:
    """One element of a value that the reference has on its way, as `element` tells of an output's."""
    known = operator.reference.values if operator.has_reference else {}
    if name not in known:
        raise LabError(f"value {name!r}: the reference has {', '.join(known) or 'none'}.")
    found = known[name].of(case.inputs, case.request.attrs)
    _inside(name, index, found.shape)
    steps_of = known[name].steps_of
    steps = steps_of(index, case.inputs, case.request.attrs) if steps_of else None
    return {
        "output": name, "index": list(index), "expected": str(found[index]),
        "expected_from": f"{operator.id}/reference.py", "fed": {}, "steps": steps,
    }  # fmt: skip


def _inside(name: str, index: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if len(index) != len(shape) or not all(0 <= at < size for at, size in zip(index, shape, strict=True)):
        raise LabError(f"{name}[{', '.join(map(str, index))}] lies outside of its shape {list(shape)}.")
