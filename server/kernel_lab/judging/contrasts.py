"""Contrasts: what is different between the browsers, adapters and machines of two runs.

In: two descriptions of who ran, as a journal's first line keeps them. Out: one `Contrast` for each thing that differs.
Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Header = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Contrast:
    """What one browser has and the other has not; a single value that changed is one of each."""

    what: str
    lost: tuple[str, ...]
    gained: tuple[str, ...]
    single: bool = False

    def __str__(self) -> str:
        if self.single:
            return f"{' '.join(self.lost) or 'none'} → {' '.join(self.gained) or 'none'}"
        parts = [
            f"{word} {', '.join(names)}" for word, names in (("lost", self.lost), ("gained", self.gained)) if names
        ]
        return "; ".join(parts)


def browsers(old: Header, new: Header) -> tuple[Contrast, ...]:
    """What two descriptions of who ran it differ in, as far as it may matter to a result."""
    (browser, adapter), (newer_browser, newer_adapter) = (
        (header.get("browser") or {}, header.get("adapter") or {}) for header in (old, new)
    )
    info, newer_info = adapter.get("info") or {}, newer_adapter.get("info") or {}
    limits, newer_limits = adapter.get("limits") or {}, newer_adapter.get("limits") or {}
    found = [
        _single("version", browser.get("version"), newer_browser.get("version")),
        _single("headed", browser.get("headed"), newer_browser.get("headed")),
        _several("flags", browser.get("flags"), newer_browser.get("flags")),
        _several("environment", *(_settings(b.get("environment")) for b in (browser, newer_browser))),
        _several("templates of its own", *(_files(header.get("templates")) for header in (old, new))),
        _several("masked", adapter.get("masked"), newer_adapter.get("masked")),
        *(
            _single("driver" if key == "driver" else f"adapter's {key}", info.get(key), newer_info.get(key))
            for key in dict.fromkeys([*info, *newer_info])
        ),
        _several("features", adapter.get("features"), newer_adapter.get("features")),
        _several("language features", adapter.get("language_features"), newer_adapter.get("language_features")),
        _several("matrix configs", *(map(json.dumps, a.get("matrix_configs") or ()) for a in (adapter, newer_adapter))),
        *(
            _single(f"limit {key}", limits.get(key), newer_limits.get(key))
            for key in dict.fromkeys([*limits, *newer_limits])
        ),
    ]
    return tuple(contrast for contrast in found if contrast is not None)


def machines(old: Header, new: Header) -> tuple[Contrast, ...]:
    """What else differs and should not matter to a result: the program's path, the system, Python."""
    (path, machine), (newer_path, newer_machine) = (
        ((header.get("browser") or {}).get("executable"), header.get("machine") or {}) for header in (old, new)
    )
    found = [
        _single("executable", path, newer_path),
        *(_single(key, machine.get(key), newer_machine.get(key)) for key in dict.fromkeys([*machine, *newer_machine])),
    ]
    return tuple(contrast for contrast in found if contrast is not None)


def _single(what: str, old: object, new: object) -> Contrast | None:
    if old == new:
        return None
    lost, gained = (() if value is None else (str(value),) for value in (old, new))
    return Contrast(what, lost, gained, single=True)


def _several(what: str, old: Iterable[str] | None, new: Iterable[str] | None) -> Contrast | None:
    before, after = list(old or ()), list(new or ())
    lost, gained = tuple(n for n in before if n not in after), tuple(n for n in after if n not in before)
    return Contrast(what, lost, gained) if lost or gained else None


def _files(digests: Header | None) -> list[str]:
    return [f"{name} ({digest[:12]})" for name, digest in (digests or {}).items()]


def _settings(environment: Header | None) -> list[str]:
    return [f"{name}={value}" for name, value in (environment or {}).items()]
