"""Installs browsers, and lavapipe for every Chromium on this machine, and tries them.

In: the cache folder. Out: what was installed, each part started and seen to give the adapter. Restart-safe: stamps are
written last; what is complete is left as it is.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_lab.browsing import finding, getting, kept, lavapipe, mesa, profiles, sources
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.finding import Report
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.lavapipe import Copy
from kernel_lab.browsing.mesa import Mesa
from kernel_lab.browsing.profiles import Profile
from kernel_lab.browsing.sources import Chromium
from kernel_lab.errors import LabError


@dataclass(frozen=True, slots=True, eq=False)
class Installed:
    """A browser, or lavapipe for one, seen to work. `profile`: its name; `info`: who answered when it was started."""

    chromium: Chromium
    profile: str
    info: BrowserInfo


def install_lavapipe(report: Report) -> list[Installed]:
    """Unpacks Mesa, prepares a copy of each Chromium and starts it. LabError says what is missing or does not work.

    One that does not work is an error only after the others: an old browser must not take lavapipe from them.
    """
    chromiums = sources.installed()
    if not chromiums:
        raise LabError(finding.missing())
    with _exclusive(mesa.folder(), report):
        if not all(map(_is_prepared, chromiums)):
            lavapipe.compiler()  # missing, it is better known before the download than after it
        unpacked = mesa.install(report)
        done, failures = [], []
        for chromium in chromiums:
            try:
                done.append(_for_chromium(chromium, unpacked, report))
            except LabError as failure:
                report(f"{chromium}: {failure}")
                failures.append(failure)
    if failures:
        raise failures[0]
    return done


def install_browser(name: str, report: Report) -> Installed:
    """Gets a browser by a name like npm-153, unless it is there, and starts it. LabError leaves nothing half-made.

    What a channel gave earlier gives way to what it gives now: channels move on.
    """
    source, version = getting.named(name)
    channel = version if isinstance(version, str) else ""
    with _exclusive(kept.folder(), report):
        found = None if channel else kept.find(name)
        if found is not None:
            report(f"{name} is there already: {found.program}")
            return _answering(sources.of(found.program), report)
        with kept.making(name) as partial:
            program = source.get(version, partial, report)
            made = sources.trial(source.name, program, channel)
            if version not in (made.major, made.channel):
                raise LabError(f"{source.what} gave {made.version} where {version} was asked for: nothing was kept.")
            done = _answering(made, report)
            found = kept.keep(partial, kept.Kept(source.name, program, made.version, channel))
    info = replace(done.info, executable=str(found.program))  # it was started where it was unpacked
    return replace(done, chromium=sources.of(found.program), info=info)


def _answering(chromium: Chromium, report: Report) -> Installed:
    """Starts it on SwiftShader, which is in every Chromium. LabError if there is no adapter."""
    report(f"starting {chromium}")
    name = f"{chromium.name}-swiftshader"
    info = examine(profiles.on_adapter(name, chromium, "swiftshader"))
    if info.facts is None:
        raise LabError(f"{chromium} starts, but offers no adapter: {info.no_adapter}.")
    return Installed(chromium, name, info)


def examine(profile: Profile) -> BrowserInfo:
    """Starts the browser and says who it is. LabError if it does not start."""
    with Lab(profile) as lab:
        return lab.info


def _for_chromium(chromium: Chromium, unpacked: Mesa, report: Report) -> Installed:
    ways = _ways(chromium)
    if _is_prepared(chromium):
        report(f"{chromium.program} is prepared already")
    else:
        copy = lavapipe.prepare(chromium, unpacked, report)
        genuine = {lavapipe.kind_of_start(headed): _attempt(copy, headed, report) for headed in ways}
        lavapipe.complete(copy, chromium, genuine)
    name = f"{chromium.name}-lavapipe"
    infos = [_verified(profiles.on_adapter(name, chromium, "lavapipe", headed=headed), report) for headed in ways]
    return Installed(chromium, name, infos[0])


def _is_prepared(chromium: Chromium) -> bool:
    with contextlib.suppress(LabError):
        return bool(lavapipe.find(chromium))
    return False


def _ways(chromium: Chromium) -> list[bool]:
    """Headless always; headed where the program has windows and this machine a display."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return [False, *([True] if chromium.can_show_windows and display else [])]


def _attempt(copy: Copy, headed: bool, report: Report) -> bool:
    """Whether Chromium takes lavapipe by VK_DRIVER_FILES alone."""
    try:
        facts = examine(profiles.of_copy("attempt", copy, spoofed=False, headed=headed)).facts
        took = facts is not None and facts.is_llvmpipe
        answer = f"took {facts.description if facts else 'no adapter'}"
    except LabError as error:
        took, answer = False, str(error)
    report(f"tried {copy.program}, {lavapipe.kind_of_start(headed)}, without a stand-in: {answer}")
    return took


def _verified(profile: Profile, report: Report) -> BrowserInfo:
    report(f"starting {profile.executable.name}, {lavapipe.kind_of_start(profile.headed)}")
    info = examine(profile)
    if info.facts is None:
        raise LabError(f"{profile.executable} offers no adapter: {info.no_adapter}.")
    if not info.facts.is_llvmpipe:
        raise LabError(f"{profile.executable} took {info.facts.description} where it should take lavapipe.")
    return info


@contextlib.contextmanager
def _exclusive(folder: Path, report: Report) -> Iterator[None]:
    """One installation at a time; the lock ends with its process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise LabError(
            f"{folder} cannot be written: {error.strerror}. KERNEL_LAB_CACHE names another folder."
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another installation is running: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
