"""The straight line: one case, from its folder to its verdict, in ten steps. Read this file first.

     1  Operator     a folder: manifest, cases, reference                      operators/
     2  Case         named inputs and attributes                               operators/cases.py
     3  check        Request -> Scope | Refused                                planning/scopes.py, planning/values.py
     4  eligible     which variants can compute it                             planning/selection.py
     5  available    … on this device                                          planning/selection.py
     6  Plan         buffers, passes, outputs, WGSL                            planning/plans.py
     7  Frame        plan, inputs and digests as one message                   serving/frames.py
     8  harness      obeys                                                     browsing/lab.py, js_harness/
     9  RunResult    status, outputs, messages, timings                        serving/frames.py
    10  Verdict      equal to the bit, or the report                           judging/

In: a case, a variant's name or none, a Lab. Out: a Verdict. The only side effects are the Lab's.
"""

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kernel_lab.browsing.lab import Lab, Ran
from kernel_lab.errors import LabError
from kernel_lab.judging import comparison, failure_report, verdicts
from kernel_lab.judging.failure_report import Evidence, repeat_command
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case, Tensors, refuse_test
from kernel_lab.operators.operator import Operator, with_templates
from kernel_lab.planning import plans, scopes, selection, values
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Refused, Scope
from kernel_lab.planning.selection import Decision
from kernel_lab.serving import frames, planner
from kernel_lab.serving.frames import Job

DEADLINE_MS = 60_000


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """How to run. `times`: how often each pair runs; outputs that change from run to run are a failure. `repeat`: the
    command that a failure report ends with, before its query; `debug`: the one that opens the debug page.
    """

    deadline_ms: int = DEADLINE_MS
    timing: bool = False
    times: int = 1
    repeat: tuple[str, ...] = ("kernel-lab", "run")
    debug: tuple[str, ...] = ("kernel-lab", "debug")


def check(operator: Operator, case: Case, *, look_at_values: bool = True) -> Scope | Refused:
    """Step 3: what may be derived from the request, or the one sentence that refuses it."""
    scope = scopes.scope_of(operator, case.request)
    if look_at_values and isinstance(scope, Scope) and operator.manifest.lab.valueChecks:
        sentence = values.refusal(scope, case.inputs)
        if sentence is not None:
            return Refused(sentence)
    return scope


@lru_cache(maxsize=64)
def expected_of(operator: Operator, case: Case) -> tuple[Tensors, str]:
    """The right outputs and who says so: the case itself, or the operator's reference."""
    if case.expected is not None:
        return case.expected
    return operator.reference.compute(case.inputs, case.request.attrs), f"{operator.id}/reference.py"


def decide(scope: Scope, facts: DeviceFacts) -> tuple[Decision, ...]:
    """Steps 4 and 5: every variant's answer on this device, best first."""
    return selection.available(selection.eligible(scope), scope, facts)


def operator_there(operator: Operator, lab: Lab) -> Operator:
    """The operator as that browser is given it: a profile may have templates of its own."""
    own = lab.profile.templates
    return operator if own is None else with_templates(operator, own)


def decisions_there(operator: Operator, case: Case, lab: Lab) -> tuple[Decision, ...]:
    """What `decide` says of a case in that browser; nothing where there is nothing to select: a refusal, or a case that
    cannot be made.
    """
    try:
        scope = check(operator_there(operator, lab), case, look_at_values=False)
    except LabError:
        return ()
    return decide(scope, lab.facts) if isinstance(scope, Scope) and case.refused is None else ()


def plan(scope: Scope, decision: Decision, facts: DeviceFacts) -> Plan:
    """Step 6."""
    return plans.plan_of(scope, decision.variant, facts)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Steps 1 to 7 done: what is to run, and what must come of it. `plan_ms` and `reference_ms`: what that took."""

    operator: Operator
    case: Case
    variant: str
    selected: bool
    plan: Plan
    job: Job
    expected: Tensors
    expected_from: str
    plan_ms: float
    reference_ms: float


def follow(
    operator: Operator, case: Case, lab: Lab, variant: str | None = None, options: Options | None = None
) -> Verdict:
    """All ten steps for one case, on the selected variant or on the one that is named.

    A case that cannot be made, or a variant that cannot be planned, fails with that sentence: a run goes on. LabError
    only from the Lab.
    """
    options = options or Options()
    prepared = prepare(operator, case, lab, variant, options)
    return prepared if isinstance(prepared, Verdict) else judge(prepared, lab.begin(prepared.job).ran(), options)


def prepare(
    operator: Operator, case: Case, lab: Lab, variant: str | None = None, options: Options | None = None
) -> Prepared | Verdict:
    """Steps 1 to 7; a Verdict where nothing is to run. LabError only from the Lab, which is asked for the device."""
    options = options or Options()
    operator = operator_there(operator, lab)
    started = time.perf_counter()
    try:
        scope = check(operator, case)
    except LabError as error:
        return _verdict(case, "", "failed", str(error))
    if isinstance(scope, Refused) or case.refused is not None:
        return _refusal(case, scope)
    facts = lab.facts
    eligible = selection.eligible(scope)
    first = selection.preferred(eligible, scope, facts)
    chosen = selection.forced_on(eligible, variant, scope, facts) if variant else first
    if chosen is None:
        return _verdict(case, "", "failed", planner.no_variant(operator.id, decide(scope, facts)))
    if not chosen.can_run:
        outcome: verdicts.Outcome = "skipped" if chosen.stage in ("requires", "limits") else "failed"
        return _verdict(case, chosen.variant.id, outcome, chosen.reason)
    selected = first is not None and chosen.variant is first.variant
    try:
        planned = plan(scope, chosen, facts)
        before_reference = time.perf_counter()
        expected, source = expected_of(operator, case)
        reference_ms = 1e3 * (time.perf_counter() - before_reference)
        timing = options.timing and "timestamp-query" in facts.features
        job = frames.job_of(planned, case.inputs, expected, options.deadline_ms, timing=timing)
    except LabError as error:
        return _verdict(case, chosen.variant.id, "failed", str(error), selected=selected)
    plan_ms = 1e3 * (time.perf_counter() - started) - reference_ms
    return Prepared(operator, case, chosen.variant.id, selected, planned, job, expected, source, plan_ms, reference_ms)


def judge(prepared: Prepared, ran: Ran, options: Options) -> Verdict:
    """Steps 9 and 10: what came of it."""
    case, variant, result = prepared.case, prepared.variant, ran.result
    returned_at = time.perf_counter()
    found = verdicts.finding(result, prepared.expected)
    spent = {
        "plan_ms": prepared.plan_ms,
        "reference_ms": prepared.reference_ms,
        "round_trip_ms": ran.round_trip_ms,
        "compare_ms": 1e3 * (time.perf_counter() - returned_at),
    }
    record: dict[str, Any] = {
        "status": result.status,
        "selected": prepared.selected,
        "emulated": prepared.plan.emulated,
        "attempts": result.attempts,
        "expected_from": prepared.expected_from,
        "wgsl": {p.label.rpartition(":")[2]: p.wgsl.digest for p in prepared.plan.passes},
        "outputs": {
            o.name: result.digests.get(o.name) or prepared.job.expected.get(o.name) for o in prepared.plan.outputs
        },
        "timings": {**dict(result.timings), **spent},
        "messages": [f"{m.kind}: {m.text}" for m in result.messages],
    }
    query = f"{case.query}:{variant}"
    if found.right:
        return Verdict(query, "passed", "equal", record=_record(case, variant, "passed", "equal", record))
    evidence = Evidence(
        prepared.operator, case, variant, prepared.plan, result, found, ran.info, prepared.expected_from,
        repeat_command(query, case.repeat or options.repeat),
        repeat_command(query, options.debug) if options.debug and not case.repeat else "",
    )  # fmt: skip
    report = failure_report.report(evidence)
    record["report"] = report
    record["pictures"] = {name: comparison.picture(difference) for name, difference in found.differences.items()}
    return Verdict(
        query, "failed", found.summary, report, _record(case, variant, "failed", found.summary, record), evidence
    )


def _refusal(case: Case, scope: Scope | Refused) -> Verdict:
    if isinstance(scope, Refused):
        if case.refused is None:
            return _verdict(case, "", "failed", f"refused, though it should run: {scope.sentence}")
        if refuse_test(case, scope.sentence):
            return _verdict(case, "", "passed", f"refused, as it must be: {scope.sentence}")
        return _verdict(case, "", "failed", f"refused, but not for {case.refused!r}: {scope.sentence}")
    return _verdict(case, "", "failed", f"accepted, though it must be refused (for {case.refused!r})")


def _verdict(case: Case, variant: str, outcome: verdicts.Outcome, summary: str, *, selected: bool = False) -> Verdict:
    query = f"{case.query}:{variant}" if variant else case.query
    text = f"{query}\n{summary}" if outcome == "failed" else ""
    status = "refused" if summary.startswith("refused") else "not run"
    more = {"status": status, "selected": selected}
    return Verdict(query, outcome, summary, text, _record(case, variant, outcome, summary, more))


def _record(case: Case, variant: str, outcome: str, summary: str, more: dict[str, Any]) -> dict[str, Any]:
    query = f"{case.query}:{variant}" if variant else case.query
    names = {"operator": case.operator, "case": case.name, "variant": variant}
    return {"type": "result", "query": query, **names, "outcome": outcome, "summary": summary, **more}
