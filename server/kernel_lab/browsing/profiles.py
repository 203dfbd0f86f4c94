"""Browser profiles: which program, with which flags and why, and what of its adapter is hidden from planning.

In: a name as given on the command line. Out: a `Profile`. Starts nothing.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernel_lab.browsing import finding
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
HARDWARE_FLAGS = (
    Flag("--use-angle=vulkan", "the GPU process must use Vulkan for WebGPU to see the GPU on Linux"),
    Flag("--enable-features=Vulkan", "likewise"),
    Flag("--disable-vulkan-surface", "headless: without it WebGPU falls back to SwiftShader without a word"),
    Flag(
        "--enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia", "shader-f16 and f16 matrices on NVIDIA"
    ),
)
FLAGS_VARIABLE = "KERNEL_LAB_CHROMIUM_FLAGS"


@dataclass(frozen=True, slots=True)
class Profile:
    """How to start a browser. `hidden`: features and WGSL language features that planning must not see; `limits`:
    lowered ones.

    `hardware`: a fallback adapter is an error.
    """

    name: str
    executable: Path
    flags: tuple[Flag, ...] = COMMON_FLAGS
    headed: bool = False
    devtools: bool = False
    hardware: bool = False
    hidden: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        return [flag.text for flag in self.flags]


def resolve(name: str = "default", *, headed: bool = False, hidden: tuple[str, ...] = ()) -> Profile:
    """The profile of that name: `default` (what is found first), `swiftshader`, `hardware`, or a program's path.

    Flags in the environment variable KERNEL_LAB_CHROMIUM_FLAGS are added. LabError says what is known.
    """
    profile = replace(_named(name), headed=headed, hidden=hidden)
    more = tuple(Flag(text, f"from {FLAGS_VARIABLE}") for text in shlex.split(os.environ.get(FLAGS_VARIABLE, "")))
    return replace(profile, flags=profile.flags + more)


def _named(name: str) -> Profile:
    if name in ("default", "system"):
        return Profile("default", _found())
    if name == "swiftshader":
        return Profile(name, _found(), COMMON_FLAGS + SOFTWARE_FLAGS)
    if name == "hardware":
        return Profile(name, _found(), COMMON_FLAGS + HARDWARE_FLAGS, hardware=True)
    path = Path(name)
    if path.is_file() and os.access(path, os.X_OK):
        return Profile(path.name, path)
    raise LabError(
        f"browser {name!r} is unknown: give default, swiftshader, hardware, or the path of a Chromium program."
    )


def _found() -> Path:
    try:
        path = finding.find_chromium()
    except finding.NoChromium as error:
        raise LabError(str(error)) from None
    if path is None:
        raise LabError(finding.missing())
    return path
