"""Where the operators and the harness lie: the checkout's own folders, or the copies a wheel carries.

In: nothing. Out: two existing folders. Never copies, never caches: an editable install must not read a stale copy.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent.parent


def _folder(name: str) -> Path:
    in_checkout = _CHECKOUT / name
    if (_CHECKOUT / "pyproject.toml").is_file() and in_checkout.is_dir():
        return in_checkout
    in_wheel = _PACKAGE / "data" / name
    if in_wheel.is_dir():
        return in_wheel
    raise FileNotFoundError(
        f"kernel-lab cannot find its folder {name}/: looked in {in_checkout} (a checkout) and {in_wheel} (a wheel). "
        "Reinstall the package, or run from a checkout."
    )


def shaders() -> Path:
    """The folder of the operators: `<id>/manifest.json`, templates, cases and references, and `_shared/`."""
    return _folder("shaders")


def js_harness() -> Path:
    """The folder of the browser's side: plain ES modules and index.html."""
    return _folder("js_harness")
