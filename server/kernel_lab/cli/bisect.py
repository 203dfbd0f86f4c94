"""`kernel-lab bisect`: the first browser version in which a case changes, and what else changed with it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kernel_lab import bisecting, line, matrix, runs
from kernel_lab.bisecting import Version
from kernel_lab.browsing import getting, installing, profiles, sources
from kernel_lab.cli import console
from kernel_lab.cli.comparisons import Comparison, described, show
from kernel_lab.cli.console import JsonOption, PackageOption, ReferenceOption
from kernel_lab.cli.run import DeadlineOption, RepeatOption, ReportOption, command_of
from kernel_lab.errors import LabError
from kernel_lab.judging import changes
from kernel_lab.judging.changes import WORDS, Changes, Kind, Run
from kernel_lab.judging.columns import Column
from kernel_lab.judging.journal import new_run_folder
from kernel_lab.queries import parse
from kernel_lab.reporting import writing
from kernel_lab.reporting.report import Part

KINDS = tuple(kind for kind in WORDS if kind not in ("slower", "faster"))
"""What can be looked for. Times cannot: one measurement of each would send the search anywhere."""

QueriesArgument = Annotated[list[str], typer.Argument(metavar="OP[:CASE[:VARIANT]]...", help="What to look at.")]
_END = "a name like debian-150-swiftshader (`browsers list` shows them), or a profile that starts from one."
GoodOption = Annotated[str, typer.Option("--good", metavar="NAME", help=f"A browser before the change: {_END}")]
BadOption = Annotated[str, typer.Option("--bad", metavar="NAME", help="One after it, on the same adapter.")]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="KIND",
        help=f"Which change: one of {', '.join(KINDS)}. Default: the first of them that there is.",
    ),
]
HereOption = Annotated[bool, typer.Option("--here", help="Only among Chromiums that are installed: get none.")]


def add_to(app: typer.Typer) -> None:
    @app.command("bisect")
    def bisect(
        query: QueriesArgument,
        good: GoodOption,
        bad: BadOption,
        on: OnOption = None,
        here: HereOption = False,
        report: ReportOption = None,
        deadline: DeadlineOption = line.DEADLINE_MS / 1000,
        repeat: RepeatOption = 1,
        package: PackageOption = None,
        reference: ReferenceOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """Find the first browser version in which a case changes, among all that are here or can be got.

        Exit code 0 if it was found, 2 if nothing changed or an end could not be tested.
        """
        queries = [parse(text) for text in query]
        pairs = list(runs.pairs(console.operators(package, reference).values(), queries, every_variant=False))
        if not pairs:
            raise LabError(f"no case fits {', '.join(query)}; `kernel-lab list` shows what there is.")
        if on is not None and on not in KINDS:
            raise LabError(f"--on: got {on!r}, allowed are {', '.join(KINDS)}.")
        options = command_of("run", deadline=deadline, repeat=repeat, package=package, reference=reference)
        words = [*query, *options[2:]]
        ends, adapter = _ends(good, bad)
        between = _between(ends, only_here=here)
        trial = _Trial(words, len(pairs), report or new_run_folder(), quiet=as_json)
        good_run, bad_run = (trial.run_of_end(name) for name in (good, bad))
        kind, targets = _target(changes.changes(good_run, bad_run), on)
        names = [f"{version.name}-{adapter}" for version in between]
        trial.say(f"looking for   {WORDS[kind]}: {_listed(targets)}")
        trial.say(f"between them  {', '.join(names) or 'no other version'}")
        tested: dict[int, Run] = {-1: good_run, len(names): bad_run}

        def changed(index: int) -> bool | None:
            run = trial.run_of(names[index], None if between[index].here else between[index].name)
            if run is None:
                return None
            tested[index] = run
            answer = any(change.query in targets for change in changes.changes(good_run, run).of(kind))
            trial.say(f"{names[index]:<{trial.width}}  {'changed' if answer else 'as the good one'}")
            return answer

        found = bisecting.search(len(names), changed)
        last, first = tested[found.last_good], tested[found.first_bad]
        column = Column("", changes.changes(last, first))
        told = Comparison(last.name, first.name, [column], {kind: kind})
        order = [good, *names, bad]
        parts = sorted(trial.parts.values(), key=lambda part: order.index(part.name))
        writing.write(trial.folder, parts)
        untested = {names[index]: trial.reasons[names[index]] for index in found.untested}
        if as_json:
            states = {part.name: part.reason or "tested" for part in parts}
            console.print_json(
                {
                    "kind": kind, "queries": targets, "last_good": last.name, "first_bad": first.name,
                    "untested": untested, "states": states, "changes": described(told),
                    "report": str(trial.folder / writing.PAGE_FILE),
                }
            )  # fmt: skip
            return
        console.out.print()
        show(told)
        for name, reason in untested.items():
            console.out.print(f"not tested, and between them: {escape(name)}: {escape(reason)}")
        console.out.print(f"report   {escape(str(trial.folder / writing.PAGE_FILE))}")
        console.out.print(f"[bold]First changed in {escape(_told(first))}; not yet in {escape(_told(last))}[/]")


def _ends(good: str, bad: str) -> tuple[tuple[Version, Version], str]:
    """The two browsers, got if need be, and the adapter that they share."""
    found, adapters = [], []
    for option, name in (("--good", good), ("--bad", bad)):
        parts = profiles.parts(profiles.base(name))
        if parts is None:
            raise LabError(f"{option}: {name!r} names no version of a Chromium. Give {_END}")
        chromium, adapter = parts
        if chromium not in [one.name for one in sources.installed()]:
            installing.install_browser(chromium, lambda text: console.err.print(f"[dim]{escape(text)}[/]"))
        found.append(Version(chromium, sources.find(chromium).version, here=True))
        adapters.append(adapter)
    if adapters[0] != adapters[1]:
        raise LabError(f"--good is on {adapters[0]} and --bad on {adapters[1]}: take the same adapter for both.")
    return (found[0], found[1]), adapters[0]


def _between(ends: tuple[Version, Version], *, only_here: bool) -> list[Version]:
    here = [Version(chromium.name, chromium.version, here=True) for chromium in sources.installed()]
    offers = {}
    for source in () if only_here else getting.SOURCES:
        try:
            offers[source.name] = source.offered()
        except LabError as error:
            console.err.print(f"[dim]{escape(source.name)} has nothing: {escape(str(error))}[/]")
    preferred = [source.name for source in getting.SOURCES]
    return bisecting.between(*ends, bisecting.offered(offers, here), preferred)


def _target(found: Changes, on: str | None) -> tuple[Kind, list[str]]:
    """The kind of change to look for, and the results that show it."""
    for kind in KINDS:
        queries = [change.query for change in found.of(kind)]
        if queries and on in (None, kind):
            return kind, queries
    wanted = "nothing" if on is None else f"nothing of the kind {on}"
    raise LabError(f"{wanted} changes between {found.old.name} and {found.new.name}: {found.headline}.")


@dataclass(slots=True, eq=False)
class _Trial:
    """Runs the same words in one browser after the other, each in a process of its own, and keeps what came of it."""

    words: Sequence[str]
    pairs: int
    folder: Path
    quiet: bool
    width: int = 28
    parts: dict[str, Part] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def run_of_end(self, name: str) -> Run:
        """LabError if it cannot be tested: without both ends there is nothing to find."""
        run = self.run_of(name)
        if run is None:
            raise LabError(f"{name} could not be tested: {self.reasons[name]}")
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in run.count.items() if count)
        self.say(f"{name:<{self.width}}  {counts}")
        return run

    def run_of(self, name: str, to_get: str | None = None) -> Run | None:
        """Gets the browser if need be, and runs. None, with a reason, where that is not possible."""
        try:
            if to_get is not None:
                installing.install_browser(to_get, self._report)
            if name.endswith("-lavapipe") and to_get is not None:
                installing.install_lavapipe(self._report)
            (seat,) = matrix.seats([name], self.folder)
            (part,) = matrix.perform([seat], self.words, self.pairs, 1)
            self.parts[name] = part
            if part.reason:
                raise LabError(part.reason)
            return changes.run_of(name, part.journals)
        except LabError as error:
            self.reasons[name] = str(error)
            self.say(f"{name:<{self.width}}  not tested: {error}")
            return None

    def say(self, text: str) -> None:
        if not self.quiet:
            console.out.print(escape(text))

    def _report(self, text: str) -> None:
        console.err.print(f"[dim]{escape(text)}[/]")


def _told(run: Run) -> str:
    return f"{run.name} ({run.browser.get('version')})"


def _listed(queries: Sequence[str]) -> str:
    def few() -> Iterator[str]:
        yield from queries[:3]
        if len(queries) > 3:
            yield f"and {len(queries) - 3:,} more"

    return ", ".join(few())
