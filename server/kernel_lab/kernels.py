"""`get_kernel`: an operator as a function, run in a browser, for notebooks and scripts. The page has the same as
`getKernel`.

In: an operator's id; then numpy arrays, or `{"data", "shape"}` as the Hub's cards show them. Out: numpy arrays. The
browser starts with the first call and stays until `close_shared_lab` or the program's end.
"""

import atexit
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import resolve
from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import Attribute, Opset, request_of
from kernel_lab.planning import plans, scopes, selection, values
from kernel_lab.serving import frames, planner

Operand = Array | Mapping[str, Any]
DEADLINE_MS = 120_000
_shared: list[Lab] = []


class Kernel:
    """One operator, callable. `op_id`: its id."""

    def __init__(self, op: Operator, lab: Lab | None = None) -> None:
        self._operator = op
        self._lab = lab

    @property
    def op_id(self) -> str:
        return self._operator.id

    def __call__(
        self,
        inputs: Mapping[str, Operand],
        attrs: Mapping[str, Attribute] | None = None,
        *,
        opset: Opset | None = None,
        variant: str | None = None,
    ) -> dict[str, Array]:
        """Runs the operator. Output shapes and dtypes are inferred.

        `inputs`: by ONNX role, numpy arrays (ml_dtypes for bfloat16, float8, int4 …) or `{"data": …, "shape": […],
        "dtype"?: …}`; an absent optional input is left out. `attrs`: ONNX attributes. LabError: a refusal, or what went
        wrong in the browser.
        """
        arrays = {role: _array(role, operand) for role, operand in inputs.items()}
        scope = scopes.scope_of(self._operator, request_of(self.op_id, arrays, attrs or {}, opset))
        sentence = scope.sentence if isinstance(scope, scopes.Refused) else values.refusal(scope, arrays)
        if isinstance(scope, scopes.Refused) or sentence is not None:
            raise LabError(f"{self.op_id}: {sentence}")
        lab = self._lab or shared_lab()
        decisions = selection.available(selection.eligible(scope), scope, lab.facts)
        if variant is not None:
            self._operator.variant(variant)
        chosen = selection.forced(decisions, variant) if variant else selection.selected(decisions)
        if chosen is None or not chosen.can_run:
            raise LabError(chosen.reason if chosen else planner.no_variant(self.op_id, decisions))
        plan = plans.plan_of(scope, chosen.variant, lab.facts)
        result = lab.run(frames.job_of(plan, arrays, None, DEADLINE_MS))
        if result.status != "ok":
            said = "; ".join(message.text for message in result.messages)
            raise LabError(f"{self.op_id}:{chosen.variant.id}: {result.status}: {result.reason or said}")
        if result.damaged:
            raise LabError(f"{self.op_id}:{chosen.variant.id} wrote past the end of {', '.join(result.damaged)}.")
        return dict(result.outputs)


def get_kernel(op_id: str, *, version: int = planner.CONTRACT_VERSION, lab: Lab | None = None) -> Kernel:
    """The kernel of that operator: "ai.onnx.ConvInteger", or "webgpu-kernels/ai.onnx.ConvInteger" as on the Hub.

    `version`: of the kernel contract, not an opset. `lab`: the browser to use; by default one that all kernels share.
    """
    if version != planner.CONTRACT_VERSION:
        raise LabError(
            f"version: got {version}, but kernel-lab has version {planner.CONTRACT_VERSION} of its kernels only."
        )
    return Kernel(operator.named(op_id), lab)


def shared_lab() -> Lab:
    """The browser that kernels share; started when first asked for."""
    if not _shared:
        _shared.append(Lab(resolve()))
        atexit.register(close_shared_lab)
    return _shared[0]


def close_shared_lab() -> None:
    """Ends the shared browser; the next call starts another."""
    while _shared:
        _shared.pop().close()


def _array(role: str, operand: Operand) -> Array:
    if not isinstance(operand, Mapping):
        return np.asarray(operand)
    if "data" not in operand or "shape" not in operand:
        raise LabError(f"{role}: got {sorted(operand)}, but an operand is an array or has `data` and `shape`.")
    wanted = dtypes.named(operand["dtype"]).numpy if "dtype" in operand else None
    array = np.asarray(operand["data"])
    array = array if wanted is None or array.dtype == wanted else array.astype(wanted)
    shape = tuple(operand["shape"])
    if array.size != dtypes.numel(shape):
        raise LabError(f"{role}: data has {array.size} elements, but shape {list(shape)} has {dtypes.numel(shape)}.")
    return array.reshape(shape)
