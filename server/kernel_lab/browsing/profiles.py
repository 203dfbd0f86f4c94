"""Browser profiles: which program, with which flags and why, and what of its adapter is hidden from planning.

In: a name as given on the command line. Out: a `Profile`. Starts no browser (a program may be asked for its version).

    default                      the Chromium that is found first, with the adapter that it prefers
    swiftshader                  the same, on SwiftShader: the least adapter
    lavapipe                     a copy of it on Mesa's lavapipe: the richest without a GPU
    hardware                     the same, on a GPU or not at all
    debian-156-lavapipe          SOURCE-MAJOR-ADAPTER: the Chromium 156 of Debian's package, on lavapipe
    npm-141-swiftshader          the same of one that `kernel-lab browsers install npm-141` has got
    chrome-for-testing-beta-…    the same of a channel: what it was when it was installed last
    /opt/chrome/chrome           that program
    ws://…, cdp+http://…         a browser that runs on another machine (browsing/remote.py)
    next                         one that kernel-lab.toml declares (browsing/declared.py)
"""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernel_lab.browsing import declared, finding, getting, kept, lavapipe, masks, remote, sources
from kernel_lab.browsing.declared import Declared
from kernel_lab.browsing.lavapipe import Copy
from kernel_lab.browsing.masks import Mask
from kernel_lab.browsing.remote import Remote
from kernel_lab.browsing.sources import Chromium
from kernel_lab.errors import LabError


@dataclass(frozen=True, slots=True)
class Flag:
    """One command-line flag of Chromium and why it is given."""

    text: str
    why: str


COMMON_FLAGS = (
    Flag(
        "--enable-unsafe-webgpu",
        "without it Chromium offers no software adapter, and experimental features stay hidden",
    ),
    Flag(
        "--enable-webgpu-developer-features", "fills adapter.info: description, driver, backend, matrix configurations"
    ),
    Flag("--disable-domain-blocking-for-3d-apis", "after a GPU crash the page may ask for an adapter again"),
    Flag("--disable-gpu-process-crash-limit", "the same, however often it crashes"),
    Flag("--disable-gpu-watchdog", "deadlines are kernel-lab's; a slow software dispatch is no hang"),
    Flag("--disable-background-networking", "a test browser has no business on the network"),
    Flag("--disable-component-update", "likewise"),
    Flag("--disable-sync", "likewise"),
    Flag("--no-first-run", "no welcome page"),
)
SOFTWARE_FLAGS = (Flag("--use-webgpu-adapter=swiftshader", "takes SwiftShader even where there is a GPU"),)
STAND_IN_FLAGS = (Flag("--use-webgpu-adapter=swiftshader", "takes what stands in SwiftShader's place: lavapipe"),)
VULKAN_FLAGS = (
    Flag("--use-angle=vulkan", "the GPU process must use Vulkan for WebGPU to see the GPU on Linux"),
    Flag("--enable-features=Vulkan", "likewise"),
    Flag("--disable-vulkan-surface", "headless: without it WebGPU falls back to SwiftShader without a word"),
)
HARDWARE_FLAGS = (
    *VULKAN_FLAGS,
    Flag(
        "--enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia", "shader-f16 and f16 matrices on NVIDIA"
    ),
)
OLDER: Mapping[int, tuple[Flag, ...]] = {
    136: (
        Flag("--enable-features=Vulkan", "131 and 133 give an adapter with all three of these only, 137 without any"),
        Flag("--use-vulkan=swiftshader", "likewise"),
        Flag("--use-angle=swiftshader", "likewise"),
    ),
}
"""What software adapters need beside SOFTWARE_FLAGS, by the newest major version that needs it."""
ADAPTERS = ("swiftshader", "lavapipe", "hardware")
FLAGS_VARIABLE = "KERNEL_LAB_CHROMIUM_FLAGS"


@dataclass(frozen=True, slots=True)
class Profile:
    """How to start a browser, or where one runs (`remote`: without program and flags), and what planning may see of its
    adapter.

    `environment`: added to this process's own, for the browser alone. `hardware`: a fallback adapter is an error.
    `hidden`: features and WGSL language features that are neither planned with nor requested; `limits`: lowered ones;
    `subgroups`: the range of sizes that is claimed; `emulate_matrices`: plain WGSL stands in for subgroup matrices.
    `retry_lost`: a job whose browser went away during it is tried once more, in a new one. `templates`: a folder whose
    templates stand in for the operators' of the same names, in this browser only.
    """

    name: str
    executable: Path
    flags: tuple[Flag, ...] = COMMON_FLAGS
    headed: bool = False
    devtools: bool = False
    hardware: bool = False
    hidden: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    subgroups: tuple[int, int] | None = None
    emulate_matrices: bool = False
    retry_lost: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    remote: Remote | None = None
    templates: Path | None = None

    @property
    def program(self) -> str:
        """The program, or what stands for it, as it is printed and recorded."""
        if self.remote is not None:
            return f"{self.remote.shown} (remote: program and flags are not known here)"
        return str(self.executable)

    @property
    def arguments(self) -> list[str]:
        return [flag.text for flag in self.flags]


def resolve(name: str = "default", *, headed: bool = False, mask: Mask | None = None) -> Profile:
    """The profile of that name (see above), with a window or without, on an adapter that is poorer by `mask`.

    Flags in the environment variable KERNEL_LAB_CHROMIUM_FLAGS are added. LabError says what is known and what to do.
    """
    mask = mask or Mask()
    own = declared.load().get(name)
    if own is not None:
        return _declared(name, own, headed, mask)
    profile = _remote(name, headed) if remote.is_address(name) else _named(name, headed)
    more = tuple(Flag(text, f"from {FLAGS_VARIABLE}") for text in shlex.split(os.environ.get(FLAGS_VARIABLE, "")))
    return replace(
        profile,
        headed=headed,
        flags=profile.flags + more,
        hidden=mask.hidden,
        limits=mask.limits,
        subgroups=mask.subgroups,
        emulate_matrices=mask.emulate_matrices,
    )


def on_adapter(name: str, chromium: Chromium, adapter: str, *, headed: bool = False) -> Profile:
    """The profile of a Chromium on one of ADAPTERS. LabError if lavapipe is not prepared for it."""
    if adapter == "lavapipe":
        copy = lavapipe.find(chromium)
        profile = of_copy(name, copy, spoofed=not copy.takes_lavapipe(headed=headed), headed=headed)
    else:
        profile = _with_flags(name, chromium.executable, adapter)
    older = () if adapter == "hardware" else _flags_of_version(chromium.major)
    return replace(profile, flags=profile.flags + older, environment=_joined(profile.environment, chromium))


def of_copy(name: str, copy: Copy, *, spoofed: bool, headed: bool = False) -> Profile:
    """lavapipe in a prepared browser: through the stand-in (`spoofed`), or as Chromium finds it."""
    flags = COMMON_FLAGS + (STAND_IN_FLAGS if spoofed else VULKAN_FLAGS)
    environment = copy.environment(spoofed=spoofed)
    return Profile(name, copy.executable(spoofed=spoofed), flags, headed, environment=environment)


def base(name: str) -> str:
    """The profile that a declared one starts from, in the end; any other is its own. LabError if they go round."""
    known, seen = declared.load(), [name]
    while (own := known.get(seen[-1])) is not None:
        if own.browser in seen:
            raise LabError(f"{declared.FILE}: profile {name} starts from itself: {' > '.join([*seen, own.browser])}.")
        seen.append(own.browser)
    return seen[-1]


def parts(name: str) -> tuple[str, str] | None:
    """Chromium and adapter of a name like debian-156-lavapipe or chrome-for-testing-beta-swiftshader; else None."""
    channels = "|".join(getting.channels())
    found = re.fullmatch(rf"([a-z]+(?:-[a-z]+)*-\d+|{channels})-({'|'.join(ADAPTERS)})", name)
    return None if found is None else (found[1], found[2])


def mask_of(name: str) -> Mask:
    """What a declared profile hides, and those that it starts from; nothing for any other."""
    base(name)
    own = declared.load().get(name)
    return Mask() if own is None else masks.joined(mask_of(own.browser), _stated(own))


def _stated(own: Declared) -> Mask:
    return masks.parse(own.mask, own.limits, own.subgroups, emulate_matrices=own.emulate_matrices)


def _declared(name: str, own: Declared, headed: bool, mask: Mask) -> Profile:
    """What it starts from, with its differences; what the command line masks is masked as well."""
    base(name)
    if own.flags and remote.is_address(own.browser):
        raise LabError(
            f"profile {name}: {own.browser} runs already, so flags cannot change it: start it so over there."
        )
    profile = resolve(own.browser, headed=headed, mask=masks.joined(_stated(own), mask))
    return replace(
        profile,
        name=name,
        flags=profile.flags + tuple(Flag(flag.flag, flag.why) for flag in own.flags),
        retry_lost=own.retry_lost or profile.retry_lost,
        templates=own.templates or profile.templates,
    )


def _named(name: str, headed: bool) -> Profile:
    if name in ("default", "system"):
        return _of_program("default", _found(headed))
    if name == "lavapipe":
        return on_adapter(name, sources.of(_found(headed)), name, headed=headed)
    if name in ADAPTERS:
        return _with_flags(name, _found(headed), name)
    versioned = parts(name)
    if versioned is not None:
        chromium, adapter = versioned
        return on_adapter(name, sources.find(chromium, headed=headed), adapter, headed=headed)
    path = Path(name)
    if path.is_file() and os.access(path, os.X_OK):
        return _of_program(path.name, path.absolute())
    if any(chromium.name == name for chromium in sources.installed()):
        raise LabError(f"browser {name!r}: on which adapter? Give {', '.join(f'{name}-{one}' for one in ADAPTERS)}.")
    raise LabError(
        f"browser {name!r} is unknown: give default, {', '.join(ADAPTERS)}, a name like debian-156-lavapipe (see "
        "`kernel-lab browsers list`), the path of a Chromium program, the address of a browser that runs elsewhere "
        f"(ws://…, cdp+http://…), or a profile that {declared.FILE} declares."
    )


def _remote(address: str, headed: bool) -> Profile:
    found = remote.parse(address)
    for given, name in ((headed, "--headed"), (os.environ.get(FLAGS_VARIABLE), FLAGS_VARIABLE)):
        if given:
            raise LabError(f"browser {found.shown} runs already, so {name} cannot change it: start it so over there.")
    return Profile(found.shown, Path(), (), remote=found)


def _of_program(name: str, program: Path) -> Profile:
    """That program, with the adapter that it prefers. Only what kernel-lab has got is known without starting it."""
    if not program.is_relative_to(kept.folder()):
        return Profile(name, program)
    chromium = sources.of(program)
    return Profile(name, program, COMMON_FLAGS + _flags_of_version(chromium.major), environment=chromium.environment)


def _flags_of_version(major: int) -> tuple[Flag, ...]:
    return tuple(flag for last, flags in OLDER.items() if major <= last for flag in flags)


def _joined(environment: Mapping[str, str], chromium: Chromium) -> dict[str, str]:
    """An environment with the Chromium's own libraries after the others."""
    paths = [part.get("LD_LIBRARY_PATH", "") for part in (environment, chromium.environment)]
    return {**environment, **({"LD_LIBRARY_PATH": ":".join(filter(None, paths))} if any(paths) else {})}


def _with_flags(name: str, executable: Path, adapter: str) -> Profile:
    if adapter == "hardware":
        return Profile(name, executable, COMMON_FLAGS + HARDWARE_FLAGS, hardware=True)
    return Profile(name, executable, COMMON_FLAGS + SOFTWARE_FLAGS)


def _found(headed: bool) -> Path:
    """The Chromium that is found first; a full one if it is to show a window."""
    try:
        path = finding.find_chromium()
    except finding.NoChromium as error:
        raise LabError(str(error)) from None
    if path is None:
        own = sources.installed()  # those that kernel-lab has got: nothing else was found
        if not own:
            raise LabError(finding.missing())
        path = own[0].executable
    if headed and "headless" in path.name:
        windowed = sources.windowed()
        if windowed is None:
            raise LabError(sources.no_window(path))
        return windowed.executable
    return path
