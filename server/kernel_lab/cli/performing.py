"""A run with all that a terminal shows of it: who runs it, its progress, its failures, how it ended.

In: pairs, a Lab, where results are kept. Out: an exit code. What `run`, `onnx` and their like have in common.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kernel_lab import line, runs, session
from kernel_lab.browsing.lab import Lab, NoAdapter
from kernel_lab.cli import console
from kernel_lab.cli.interrupts import heeded
from kernel_lab.errors import LabError
from kernel_lab.judging import contrasts
from kernel_lab.judging.journal import Journal, Kept, new_run_folder
from kernel_lab.judging.known import NOTHING, Entry, Known
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.runs import Pair


def perform(
    chosen: Sequence[Pair],
    lab: Lab,
    options: line.Options,
    *,
    report: Path | None = None,
    kept: Kept | None = None,
    again: Sequence[str] = (),
    allow_no_adapter: bool = False,
    verbose: bool = False,
    as_json: bool = False,
    command: str = "run",
    known: Known = NOTHING,
    stale: Callable[[Known, Sequence[Verdict]], Sequence[Entry]] = lambda *_: (),
) -> int:
    """Runs pairs with all that a terminal shows. The exit code: 0 only if something ran, nothing failed (but `known`
    failures where they apply) and no line of theirs is `stale`.

    `kept`: the run that this one goes on with; its results count, too. `again`: the command that goes on with this one
    if it is cut short, before the folder.
    """
    try:
        _ = lab.facts
    except NoAdapter as error:
        if not allow_no_adapter:
            raise
        return _skip_all(chosen, error, as_json)
    if not as_json:
        for text in runs.headline(lab.info):
            console.out.print(escape(text))
    made_of = runs.describe_packages((pair.operator for pair in chosen), lab.profile)
    described = {**runs.describe(lab.info), **made_of, "pairs": len(chosen)}
    known = known.there(lab.info)
    verdicts: list[Verdict] = []
    left_over: list[Entry] = []
    if kept is None:
        log = Journal(report or new_run_folder(), {"command": command, **described})
    else:
        _refuse_another(kept, described)
        log = Journal(kept.path.parent, None)
        verdicts += map(runs.verdict_of, kept.results)
        chosen = runs.unfinished(chosen, kept.results)
    try:
        verdicts += _with_progress(chosen, lab, log, options, known, before=verdicts, verbose=verbose, quiet=as_json)
    except (LabError, KeyboardInterrupt):
        if again:
            console.err.print(f"To go on with it: {escape(shlex.join([*again, str(log.folder)]))}")
        raise
    else:
        left_over += stale(known, verdicts)
        for entry in left_over:
            log.append({"type": "stale", "query": entry.query, "reason": entry.reason, "file": known.file})
    finally:
        log.close()
    summary = runs.counts(verdicts)
    sentences = [known.told(entry) for entry in left_over]
    if as_json:
        console.print_json(
            {"run": described, "results": [v.record for v in verdicts], "journal": str(log.path), "stale": sentences}
        )
    else:
        _print_end(verdicts, log, lab, options, command, sentences)
    return 0 if summary.ran and not summary.failed and not left_over else 1


def _with_progress(
    chosen: Sequence[Pair],
    lab: Lab,
    log: Journal,
    options: line.Options,
    known: Known,
    *,
    before: Sequence[Verdict],
    verbose: bool,
    quiet: bool,
) -> list[Verdict]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if before and not quiet:
        console.out.print(f"{len(before):,} results are in the journal, {len(chosen):,} pairs are left")
        for verdict in before:
            if verdict.outcome == "failed":
                console.out.print(
                    f"{console.mark('failed')}  {escape(verdict.query)}  [dim]{escape(verdict.summary)}[/]"
                )
    with heeded() as check, Progress(*columns, console=console.err, disable=quiet, transient=True) as progress:
        task = progress.add_task("running", total=len(before) + len(chosen), completed=len(before))

        def on_verdict(verdict: Verdict) -> None:
            check()
            progress.advance(task)
            if quiet:
                return
            if verdict.outcome == "failed":
                console.out.print(f"\n{console.mark('failed')}  {escape(verdict.report or verdict.summary)}\n")
            elif verbose or verdict.outcome in ("skipped", "known"):
                console.out.print(
                    f"{console.mark(verdict.outcome)}  {escape(verdict.query)}  [dim]{escape(verdict.summary)}[/]"
                )

        return session.perform(chosen, lab, log, options, on_verdict, known)


def _print_end(
    verdicts: Sequence[Verdict], log: Journal, lab: Lab, options: line.Options, command: str, stale: Sequence[str]
) -> None:
    by_operator: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_operator.setdefault(verdict.record["operator"], []).append(verdict)
    for name, group in by_operator.items():
        console.out.print(f"{name:<28} {runs.counts(group)}")
    if command == "onnx":
        console.out.print(escape(_expected_from(verdicts)))
    if lab.restarts:
        console.out.print(f"The browser was lost and started anew {lab.restarts} times.")
    console.out.print(f"journal  {escape(str(log.path))}", soft_wrap=True)
    summary = runs.counts(verdicts)
    if summary.failed and command == "run":
        again = shlex.join([*options.repeat, "--last-failed"])
        console.out.print(f"Again, only what failed: {escape(again)}")
    if not summary.ran:
        console.out.print("Nothing ran: that is a failure.")
    for sentence in stale:
        console.out.print(f"{console.mark('failed')}  {escape(sentence)}")
    console.out.print(f"{summary}{f', {len(stale):,} stale' if stale else ''}")


def _expected_from(verdicts: Sequence[Verdict]) -> str:
    """Who said what is right, with the number of cases; the reference is named even where it was not needed."""
    by_case = {
        (v.record["operator"], v.record["case"]): v.record["expected_from"]
        for v in verdicts
        if "expected_from" in v.record
    }
    found = Counter(by_case.values())
    if not any(source.startswith("the reference") for source in found):
        found["the reference"] = 0
    return "expected  " + ", ".join(f"from {source}: {count:,}" for source, count in found.items())


def _skip_all(chosen: Sequence[Pair], error: Exception, as_json: bool) -> int:
    if as_json:
        console.print_json({"run": None, "no_adapter": str(error), "results": [], "skipped": len(chosen)})
    else:
        console.out.print(f"{console.mark('skipped')}  every case: {escape(str(error))}")
        console.out.print(str(runs.Counts(skipped=len(chosen))))
    return 0


def _refuse_another(kept: Kept, described: Mapping[str, Any]) -> None:
    """Results of two browsers do not belong into one journal."""
    found = contrasts.browsers(kept.header, described)
    if found:
        told = ", ".join(f"{contrast.what} ({contrast})" for contrast in found)
        raise LabError(f"--resume {kept.path.parent}: another browser or adapter made that journal: {told}.")
    before: Mapping[str, str] = kept.header.get("packages") or {}
    edited = [name for name, digest in described["packages"].items() if before.get(name, digest) != digest]
    if edited:
        raise LabError(
            f"--resume {kept.path.parent}: the files of {', '.join(edited)} have changed since, so its results are of "
            "other kernels. Run anew, without --resume."
        )
