"""kernel-lab in pytest: options, and a chain of small fixtures that anyone can override link by link.

    lab_profile  -> which browser            (session)
    lab          -> the browser, running     (session; one per xdist worker)
    lab_journal  -> where results are kept   (session)
    lab_options  -> deadline and the like    (session)
    lab_known    -> known failures there     (session)
    lab_judge    -> pair -> Verdict          (session)
    kernel_pair  -> one case and variant     (parametrised from --lab-query; its id is the query string)

A test that asks for `kernel_pair` is collected once per pair, without a browser. Every pytest run of an environment
loads this file, whether it has kernels or not: what costs time to import is imported where it is used.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernel_lab.errors import LabError

if TYPE_CHECKING:
    from kernel_lab import line
    from kernel_lab.browsing.lab import Lab
    from kernel_lab.browsing.profiles import Profile
    from kernel_lab.judging.journal import Journal
    from kernel_lab.judging.known import Known
    from kernel_lab.judging.verdicts import Verdict
    from kernel_lab.queries import Query
    from kernel_lab.runs import Pair

Judge = Callable[["Pair"], "Verdict"]
_HEADLINE = "kernel_lab_headline"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernel-lab", "WGSL kernels in a real Chromium")
    group.addoption(
        "--lab-query", action="append", metavar="OP:CASE:VARIANT", help="which pairs; may be repeated (default: all)"
    )
    group.addoption(
        "--lab-variants", choices=("selected", "all"), default="all", help="the selected variant or every one that can"
    )
    group.addoption(
        "--lab-browser", default="default", metavar="NAME", help="default, swiftshader, lavapipe, …, or a path"
    )
    group.addoption("--lab-headed", action="store_true", help="show the browser")
    group.addoption("--lab-retry-lost", action="store_true", help="a case whose browser was lost runs once more")
    group.addoption(
        "--lab-mask", action="append", default=[], metavar="FEATURE", help="hide a feature or WGSL language feature"
    )
    group.addoption(
        "--lab-limit", action="append", default=[], metavar="NAME=VALUE", help="lower a limit of the adapter"
    )
    group.addoption("--lab-subgroups", metavar="LOW-HIGH", help="claim that range of subgroup sizes, as 4-128")
    group.addoption("--lab-emulate-matrices", action="store_true", help="plain WGSL stands in for subgroup matrices")
    group.addoption("--lab-deadline", type=float, metavar="SECONDS", help="for one run, as `kernel-lab run`'s")
    group.addoption(
        "--lab-repeat", type=int, default=1, metavar="N", help="run each pair N times: outputs that change fail"
    )
    group.addoption(
        "--lab-known", type=Path, metavar="FILE", help="known failures, as `kernel-lab run --known`'s: xfail, strictly"
    )
    group.addoption("--lab-report", type=Path, metavar="DIR", help="keep the journal there (default: in the cache)")
    group.addoption(
        "--lab-allow-no-adapter", action="store_true", help="without an adapter skip, visibly, instead of failing"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker should run (pipelines compile once)")
    config.stash[_state] = _State()
    if hasattr(config, "workerinput") or not config.pluginmanager.hasplugin("xdist"):
        return
    config.pluginmanager.register(_FromWorkers(config), "kernel-lab-from-workers")


class _State:
    """What a session has to say at its end."""

    def __init__(self) -> None:
        self.headlines: list[str] = []
        self.collected = 0
        self.judged = 0
        self.stale: dict[str, str] = {}
        """Lines of --lab-known that name no pair: their queries, with a sentence each."""
        self.known: set[str] = set()
        """Queries of those that named a judged pair."""
        self.folder: Path | None = None


_state = pytest.StashKey[_State]()


class _FromWorkers:
    """Takes over what xdist's workers have to say."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_testnodedown(self, node: Any) -> None:
        said = getattr(node, "workeroutput", {}).get(_HEADLINE)
        if said:
            state = self._config.stash[_state]
            state.headlines += [text for text in said["headlines"] if text not in state.headlines]
            state.judged += said["judged"]
            state.collected = max(state.collected, said["collected"])
            state.stale |= said["stale"]
            state.known |= set(said["known"])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernel_pair" not in metafunc.fixturenames:
        return
    from kernel_lab import runs
    from kernel_lab.judging import known
    from kernel_lab.operators import operator

    config = metafunc.config
    queries = _queries(config)
    every = config.getoption("--lab-variants") == "all"
    try:
        known.load(config.getoption("--lab-known"))  # a mistake in it ends the session before a browser starts
        found = list(runs.pairs(operator.load_all().values(), queries, every_variant=every))
    except LabError as error:
        raise pytest.UsageError(str(error)) from None
    if not found:
        raise pytest.UsageError(f"no case fits {', '.join(map(str, queries))}: see `kernel-lab list`")
    config.stash[_state].collected += len(found)
    params = [
        pytest.param(pair, id=pair.query, marks=pytest.mark.xdist_group(f"{pair.operator.id}:{pair.variant}"))
        for pair in found
    ]
    metafunc.parametrize("kernel_pair", params)


def _queries(config: pytest.Config) -> "list[Query]":
    from kernel_lab.queries import parse

    return [parse(text) for text in config.getoption("--lab-query") or ["*"]]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Makes `--dist loadgroup` group again: pytest-xdist 3.8 tells a test's group by a suffix of its node id, written
    in a way that pytest 9.2 no longer reads. Can go with https://github.com/pytest-dev/pytest-xdist/issues/1386.
    """
    if not config.getoption("loadgroup", False):
        return
    for item in items:
        groups = {str(mark.kwargs.get("name", *mark.args)) for mark in item.iter_markers("xdist_group")}
        suffix = f"@{'_'.join(sorted(groups))}"
        node_id = getattr(item, "_id", None)
        if groups and node_id is not None and not item.nodeid.endswith(suffix):
            item._id = type(node_id).parse(item.nodeid + suffix)


@pytest.fixture(scope="session")
def lab_profile(pytestconfig: pytest.Config) -> "Profile":
    """Which browser. Override it to run on one of your own."""
    from dataclasses import replace

    from kernel_lab.browsing import masks
    from kernel_lab.browsing.profiles import resolve

    try:
        profile = resolve(
            pytestconfig.getoption("--lab-browser"),
            headed=pytestconfig.getoption("--lab-headed"),
            mask=masks.parse(
                pytestconfig.getoption("--lab-mask"),
                pytestconfig.getoption("--lab-limit"),
                pytestconfig.getoption("--lab-subgroups"),
                emulate_matrices=pytestconfig.getoption("--lab-emulate-matrices"),
            ),
        )
        return replace(profile, retry_lost=profile.retry_lost or pytestconfig.getoption("--lab-retry-lost"))
    except LabError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def lab(lab_profile: "Profile", pytestconfig: pytest.Config) -> Iterator["Lab"]:
    """The browser, running, with an adapter. Without one the tests fail, or skip with --lab-allow-no-adapter."""
    from kernel_lab import runs
    from kernel_lab.browsing.lab import Lab, NoAdapter

    with Lab(lab_profile) as running:
        try:
            _ = running.facts
        except LabError as error:
            if isinstance(error, NoAdapter) and pytestconfig.getoption("--lab-allow-no-adapter"):
                pytest.skip(f"no adapter: {error}")
            pytest.fail(str(error), pytrace=False)
        state = pytestconfig.stash[_state]
        state.headlines += [text for text in runs.headline(running.info) if text not in state.headlines]
        yield running


@pytest.fixture(scope="session")
def lab_journal(lab: "Lab", pytestconfig: pytest.Config) -> Iterator["Journal"]:
    """Where each result is kept as it comes; one file per worker."""
    from kernel_lab import runs
    from kernel_lab.judging.journal import Journal, new_run_folder
    from kernel_lab.operators import operator

    stated = pytestconfig.getoption("--lab-report")
    worker = getattr(pytestconfig, "workerinput", {}).get("workerid", "")
    folder = (stated or new_run_folder()) / worker
    made_of = runs.describe_packages(operator.load_all().values(), lab.profile)
    journal = Journal(folder, {"command": "pytest", **runs.describe(lab.info), **made_of})
    pytestconfig.stash[_state].folder = folder
    yield journal
    journal.close()


@pytest.fixture(scope="session")
def lab_options(pytestconfig: pytest.Config) -> "line.Options":
    """How each pair is run."""
    from kernel_lab import line

    seconds = pytestconfig.getoption("--lab-deadline")
    deadline_ms = line.DEADLINE_MS if seconds is None else int(1000 * seconds)
    return line.Options(deadline_ms, times=pytestconfig.getoption("--lab-repeat"))


@pytest.fixture(scope="session")
def lab_known(lab: "Lab", pytestconfig: pytest.Config) -> "Known":
    """The known failures that apply to the browser. Where kernel_pair was asked for, stale lines end the session badly,
    by the rules of judging/known.py.
    """
    from kernel_lab import runs
    from kernel_lab.judging import known
    from kernel_lab.operators import operator

    try:
        there = known.load(pytestconfig.getoption("--lab-known")).there(lab.info)
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    state = pytestconfig.stash[_state]
    if state.collected and there.entries:
        stale = runs.stale(there, operator.load_all().values(), _queries(pytestconfig))
        state.stale = {entry.query: there.told(entry) for entry in stale}
    return there


@pytest.fixture(scope="session")
def lab_judge(
    lab: "Lab",
    lab_journal: "Journal",
    lab_options: "line.Options",
    lab_known: "Known",
    pytestconfig: pytest.Config,
) -> Judge:
    """Runs a pair, writes it down, gives its verdict."""
    from kernel_lab import session

    running = session.Session(lab, lab_journal, lab_options, lab_known)

    def judge(pair: "Pair") -> "Verdict":
        verdict = running.judge(pair)
        state = pytestconfig.stash[_state]
        state.judged += verdict.outcome != "skipped"
        state.known |= {entry.query for entry in lab_known.entries_for(verdict)}
        return verdict

    return judge


def settle(verdict: "Verdict") -> None:
    """A verdict as pytest's outcome: its report is the whole failure message, a skip shows its reason, and so does a
    known failure, which is an xfail.
    """
    __tracebackhide__ = True
    if verdict.outcome == "skipped":
        pytest.skip(verdict.summary)
    if verdict.outcome == "known":
        pytest.xfail(verdict.summary)
    if verdict.outcome == "failed":
        pytest.fail(verdict.report, pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    state = config.stash[_state]
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[_HEADLINE] = {
            "headlines": state.headlines,
            "judged": state.judged,
            "collected": state.collected,
            "stale": state.stale,
            "known": sorted(state.known),
        }
        return
    stale = [told for query, told in state.stale.items() if query not in state.known]
    state.headlines += stale
    if stale and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    nothing = state.collected and not state.judged and session.testscollected and not session.config.option.collectonly
    if nothing and session.exitstatus == pytest.ExitCode.OK and not config.getoption("--lab-allow-no-adapter"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        state.headlines.append("No kernel ran: that is a failure. --lab-allow-no-adapter allows it.")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    state = config.stash[_state]
    if not state.headlines:
        return
    terminalreporter.section("kernel-lab")
    for text in state.headlines:
        terminalreporter.write_line(text)
    if state.folder is not None:
        terminalreporter.write_line(f"journal  {state.folder}")
