"""run.json: what one or several browsers made of the same cases, in one document of a published form.

In: journals under the browsers' names. Out: a `Report`, which is also the schema. Pure.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernel_lab.judging.journal import Kept, Trace

Outcome = Literal["passed", "known", "failed", "skipped"]
_WORST: tuple[Outcome, ...] = ("passed", "skipped", "known", "failed")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Adapter(_Part):
    """What WebGPU said of the adapter. `description`: by description and driver; `info`: GPUAdapterInfo and more."""

    description: str
    fallback: bool
    spoofed_ids: bool
    info: dict[str, Any]
    features: tuple[str, ...]
    language_features: tuple[str, ...]
    limits: dict[str, int]
    matrix_configs: tuple[dict[str, Any], ...] = ()
    masked: tuple[str, ...] = ()


class Browser(_Part):
    """One browser's part of the run. `reason`: why it has no results, or not all of them; empty if it has. `packages`:
    the SHA-256 of each operator's folder as it was then, by the operator's id; `templates`: that of each template of
    this browser's profile that stood in for one of theirs.
    """

    name: str
    reason: str = ""
    version: str = ""
    executable: str = ""
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    headed: bool = False
    user_agent: str = ""
    adapter: Adapter | None = None
    machine: dict[str, str] = {}
    packages: dict[str, str] = {}
    templates: dict[str, str] = {}
    started: str = ""
    passed: int = 0
    known: int = 0
    failed: int = 0
    skipped: int = 0


class Decided(_Part):
    """What selection said of one variant. `stage`: how far it came (accepted, demoted, emulated: it can run; when,
    requires, limits: it cannot); `reason`: why not further, in a sentence.
    """

    variant: str
    stage: str
    reason: str = ""


class Cell(_Part):
    """One pair in one browser. `trace`: the index, in the report's traces, of what selection said of its case there.
    `outputs` and `wgsl`: SHA-256 by output and by pass. `timings`: milliseconds; those of pipelines count as cold where
    `compile_ms` is there. `report`: the whole failure report. `pictures`: by output, where its elements differ (see
    kernel_lab.judging.comparison.picture).
    """

    outcome: Outcome
    summary: str
    status: str = ""
    selected: bool = False
    emulated: bool = False
    trace: int | None = None
    attempts: int = 0
    expected_from: str = ""
    wgsl: dict[str, str] = {}
    outputs: dict[str, str | None] = {}
    timings: dict[str, float] = {}
    messages: tuple[str, ...] = ()
    report: str = ""
    pictures: dict[str, tuple[str, ...]] = {}
    repeated: int = Field(default=1, description="How many results the journals hold of this pair; this is the worst.")


class Result(_Part):
    """One pair of a case and a variant (none for a refusal). `cells`: by the browser's name; one that is not there did
    not come to this pair.
    """

    query: str
    operator: str
    case: str
    variant: str
    cells: dict[str, Cell]


class Report(_Part):
    """The whole run. `traces`: what selection said of every variant, best first; each once, and cells name theirs."""

    format: Literal[1] = 1
    created: str
    browsers: tuple[Browser, ...]
    traces: tuple[tuple[Decided, ...], ...] = ()
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one browser left behind: its journals (one a worker), and why they are not whole, if they are not."""

    name: str
    journals: tuple[Kept, ...]
    reason: str = ""


def report_of(parts: Sequence[Part], created: str) -> Report:
    """One report of all parts; results in the order in which the browsers had them."""
    cells: dict[str, dict[str, Cell]] = {}
    traces: dict[Trace, int] = {}
    names: dict[str, tuple[str, str, str]] = {}
    browsers = []
    for part in parts:
        own: dict[str, Cell] = {}
        for record in (record for one in part.journals for record in one.results):
            names.setdefault(record["query"], (record["operator"], record["case"], record["variant"]))
            own[record["query"]] = _worse(own.get(record["query"]), record)
        decisions = {case: trace for one in part.journals for case, trace in one.decisions.items()}
        for query, cell in own.items():
            operator, case, _ = names[query]
            trace = decisions.get(f"{operator}:{case}")
            number = None if trace is None else traces.setdefault(trace, len(traces))
            cells.setdefault(query, {})[part.name] = cell.model_copy(update={"trace": number})
        browsers.append(_browser(part, Counter(cell.outcome for cell in own.values())))
    results = (
        Result(query=query, operator=operator, case=case, variant=variant, cells=cells[query])
        for query, (operator, case, variant) in names.items()
    )
    told = (tuple(Decided(variant=v, stage=s, reason=r) for v, s, r in trace) for trace in traces)
    return Report(created=created, browsers=tuple(browsers), traces=tuple(told), results=tuple(results))


def schema() -> str:
    """The JSON Schema of run.json, as it is published."""
    return json.dumps(Report.model_json_schema(), indent=2) + "\n"


def _browser(part: Part, count: Mapping[str, int]) -> Browser:
    header = part.journals[0].header if part.journals else {}
    adapter = header.get("adapter")
    return Browser(
        **{**_known(header.get("browser") or {}, Browser), "name": part.name},
        reason=part.reason or header.get("no_adapter") or "",
        adapter=None if adapter is None else Adapter(**_known(adapter, Adapter)),
        machine=header.get("machine") or {},
        packages=header.get("packages") or {},
        templates=header.get("templates") or {},
        started=header.get("started") or "",
        passed=count["passed"],
        known=count["known"],
        failed=count["failed"],
        skipped=count["skipped"],
    )


def _worse(before: Cell | None, record: Mapping[str, Any]) -> Cell:
    """The worse of what several workers, or several rounds, made of one pair."""
    fields = _known(record, Cell)
    fields["timings"] = {name: ms for name, ms in record.get("timings", {}).items() if isinstance(ms, int | float)}
    cell = Cell(**fields)
    if before is None:
        return cell
    worst = max(before, cell, key=lambda one: _WORST.index(one.outcome))
    return worst.model_copy(update={"repeated": before.repeated + 1})


def _known(record: Mapping[str, Any], form: type[BaseModel]) -> dict[str, Any]:
    """What the form has of a record: a journal may hold more."""
    return {name: value for name, value in record.items() if name in form.model_fields}
