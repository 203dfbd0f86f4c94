"""Answers `POST /plan`: a page's Request becomes a plan by the same steps as in tests. Planning happens here and
nowhere else.

In: the page's JSON `{op, version, dtypes, shapes, attrs, facts, variant?}`. Out: `{plan, wgsl, valueChecks, outputs,
decisions}`, or `{refused: sentence}`. LabError if the JSON is no request.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.operators.requests import Request
from kernel_lab.planning import facts as device_facts
from kernel_lab.planning import plans, scopes, selection
from kernel_lab.planning.values import active_checks
from kernel_lab.serving import frames

CONTRACT_VERSION = 1


class PlanRequest(BaseModel):
    """What a page may ask for. `version`: of the published kernel contract, not an opset."""

    model_config = ConfigDict(extra="forbid")

    op: str
    version: int = CONTRACT_VERSION
    dtypes: dict[str, str]
    shapes: dict[str, list[int]]
    attrs: dict[str, Any] = {}
    facts: dict[str, Any]
    variant: str | None = None


def answer(body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one POST /plan."""
    try:
        asked = PlanRequest.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise LabError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    if asked.version != CONTRACT_VERSION:
        return {"refused": f"version: got {asked.version}, but there is version {CONTRACT_VERSION} only."}
    if any(size < 0 for shape in asked.shapes.values() for size in shape) or asked.dtypes.keys() != asked.shapes.keys():
        raise LabError("dtypes and shapes must name the same inputs, and sizes must be 0 or more.")
    op = operator.named(asked.op)
    shapes = {role: tuple(shape) for role, shape in asked.shapes.items()}
    scope = scopes.scope_of(op, Request(op.id, asked.dtypes, shapes, asked.attrs))
    if isinstance(scope, scopes.Refused):
        return {"refused": scope.sentence}
    facts = device_facts.facts_of(asked.facts)
    if facts is None:
        return {"refused": f"no adapter: {asked.facts.get('reason', 'this browser offers none')}"}
    decisions = selection.available(selection.eligible(scope), scope, facts)
    if asked.variant is not None:
        op.variant(asked.variant)
        chosen: selection.Decision | None = selection.forced(decisions, asked.variant)
    else:
        chosen = selection.selected(decisions)
    if chosen is None or not chosen.can_run:
        return {"refused": no_variant(op.id, decisions)}
    plan = plans.plan_of(scope, chosen.variant, facts)
    return {
        "plan": frames.plan_header(plan),
        "wgsl": frames.wgsl_texts(plan, set()),
        "valueChecks": [
            {"input": check.input, "rule": check.rule, "sentence": sentence} for check, sentence in active_checks(scope)
        ],
        "outputs": {role: {"dtype": t.dtype, "shape": list(t.shape)} for role, t in scope.outputs.items()},
        "decisions": [{"variant": d.variant.id, "stage": d.stage, "reason": d.reason} for d in decisions],
        "operator": op.id,
    }


def no_variant(operator_id: str, decisions: "tuple[selection.Decision, ...]") -> str:
    """The sentence for a request that no variant takes on this adapter."""
    reasons = "; ".join(f"{decision.variant.id}: {decision.reason}" for decision in decisions)
    return f"no variant of {operator_id} can run this request here: {reasons}"
