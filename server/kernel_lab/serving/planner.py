"""Answers `POST /plan`: a page's Request becomes a plan by the same steps as in tests. Planning happens here and
nowhere else.

In: the page's JSON `{op, version, dtypes, shapes, attrs, facts, variant?}`. Out: `{plan, wgsl, valueChecks, outputs,
decisions}`, or `{refused: sentence}`. LabError if the JSON is no request.

A page may say anything. What it says of shapes is bounded here, so that no number derived from them takes long to
compute or to print; what it says of its adapter has the types that planning relies on.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.requests import Request
from kernel_lab.planning import facts as device_facts
from kernel_lab.planning import plans, scopes, selection
from kernel_lab.planning.facts import COMPUTE_FEATURES, WEBGPU_DEFAULT_LIMITS, DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.values import active_checks
from kernel_lab.serving import frames

CONTRACT_VERSION = 1
MAX_RANK = 64
"""numpy's."""
MAX_ELEMENTS = 2**53 - 1
"""Of a dimension and of a tensor: how far a page's JavaScript counts."""

Count = Annotated[int, Field(ge=0)]


class PageAdapter(BaseModel):
    """What planning reads of an adapter, among what else a page says of it."""

    model_config = ConfigDict(extra="allow")

    subgroupMinSize: Count | None = None
    subgroupMaxSize: Count | None = None
    subgroupMatrixConfigs: list[dict[str, str | int]] | None = None


class PageFacts(BaseModel):
    """What a page says of its adapter, as its hello does; None for the adapter where it has none."""

    adapter: PageAdapter | None
    features: list[str] = []
    languageFeatures: list[str] = []
    limits: dict[str, Count] = {}
    reason: str | None = None

    @property
    def device(self) -> DeviceFacts | None:
        adapter = self.adapter and self.adapter.model_dump(exclude_unset=True)
        limits = {**WEBGPU_DEFAULT_LIMITS, **self.limits}
        return device_facts.facts_of({**self.model_dump(), "adapter": adapter, "limits": limits})


class PlanRequest(BaseModel):
    """What a page may ask for. `version`: of the published kernel contract, not an opset."""

    model_config = ConfigDict(extra="forbid")

    op: str
    version: int = CONTRACT_VERSION
    dtypes: dict[str, str]
    shapes: dict[str, list[int]]
    attrs: dict[str, Any] = {}
    facts: PageFacts
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
    for role, sizes in asked.shapes.items():
        if len(sizes) > MAX_RANK:
            raise LabError(f"shapes.{role}: got rank {len(sizes):,}; the rank may be at most {MAX_RANK}.")
        if max([*sizes, dtypes.numel(tuple(sizes))]) > MAX_ELEMENTS:
            raise LabError(f"shapes.{role}: got {sizes}; a tensor may have at most {MAX_ELEMENTS:,} elements.")
    op = operator.named(asked.op)
    shapes = {role: tuple(shape) for role, shape in asked.shapes.items()}
    scope = scopes.scope_of(op, Request(op.id, asked.dtypes, shapes, asked.attrs))
    if isinstance(scope, scopes.Refused):
        return {"refused": scope.sentence}
    facts = asked.facts.device
    if facts is None:
        return {"refused": f"no adapter: {asked.facts.reason or 'this browser offers none'}"}
    decisions = selection.available(selection.eligible(scope), scope, facts)
    if asked.variant is not None:
        op.variant(asked.variant)
        chosen: selection.Decision | None = selection.forced(decisions, asked.variant)
    else:
        chosen = selection.selected(decisions)
    if chosen is None or not chosen.can_run:
        return {"refused": no_variant(op.id, decisions)}
    plan = _on_shared_device(plans.plan_of(scope, chosen.variant, facts), facts)
    return {
        "plan": frames.plan_header(plan),
        "wgsl": frames.wgsl_texts(plan, set()),
        "valueChecks": [
            {"input": check.input, "rule": check.rule, "sentence": sentence} for check, sentence in active_checks(scope)
        ],
        "outputs": {role: {"dtype": t.dtype, "shape": list(t.shape)} for role, t in scope.outputs.items()},
        "decisions": [decision.json for decision in decisions],
        "operator": op.id,
    }


def _on_shared_device(plan: Plan, facts: DeviceFacts) -> Plan:
    """The plan on a device with every feature that kernels use: a page's kernels share one, whatever their variants
    need, or the output of one could not stay on the GPU as the input of another.
    """
    offered = facts.features.intersection(COMPUTE_FEATURES)
    return replace(plan, features=tuple(sorted(offered.union(plan.features))))


def no_variant(operator_id: str, decisions: "tuple[selection.Decision, ...]") -> str:
    """The sentence for a request that no variant takes on this adapter."""
    reasons = "; ".join(f"{decision.variant.id}: {decision.reason}" for decision in decisions)
    return f"no variant of {operator_id} can run this request here: {reasons}"
