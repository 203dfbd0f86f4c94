"""Step 10: what one run means. The status says whether bytes came back; the verdict says whether they are right.

In: a RunResult and expected arrays. Out: a `Verdict`. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kernel_lab.judging.comparison import Difference, difference
from kernel_lab.operators.cases import Tensors
from kernel_lab.serving.frames import RunResult

Outcome = Literal["passed", "known", "failed", "skipped"]
"""`known`: failed, as a file of known failures says (judging/known.py)."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """`summary`: one line; `report`: what a person reads when it failed; `record`: what the journal keeps; `evidence`:
    all that a failed run left (a failure_report.Evidence), for as long as someone may want to look.
    """

    query: str
    outcome: Outcome
    summary: str
    report: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    evidence: Any = None

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What is wrong with a run: nothing (`right`), a `status` other than ok, `damaged` guards, or `differences` by
    output.
    """

    status: str
    differences: Mapping[str, Difference] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return self.status == "ok" and not self.differences and not self.damaged

    @property
    def summary(self) -> str:
        if self.status != "ok":
            return self.status.replace("_", " ")
        parts = [
            f"{name}: {d.kind}"
            if d.kind
            else f"{name}: {d.count:,} of {d.size:,} elements differ; first at {list(d.first)}"
            for name, d in self.differences.items()
        ]
        if self.damaged:
            parts.append(f"wrote past the end of {', '.join(self.damaged)}")
        return "; ".join(parts) or "equal"


def finding(result: RunResult, expected: Tensors) -> Finding:
    """Judges a result. An output that neither came back nor was reported equal is an error, never a pass."""
    if result.status != "ok":
        return Finding(result.status)
    differences = {}
    for name, array in expected.items():
        if name in result.equal:
            continue
        if name not in result.outputs:
            return Finding("harness_error")
        found = difference(result.outputs[name], array)
        if found is None and name in result.untidy:
            found = Difference(result.outputs[name], array, 0, (), "bits behind the last element are not 0")
        if found is not None:
            differences[name] = found
    return Finding("ok", differences, result.damaged)
