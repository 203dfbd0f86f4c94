"""Files of others that travel with kernel-lab are what their package has, to the byte, and say under which license."""

import base64
import hashlib
import json
from pathlib import Path

HARNESS = Path(__file__).parents[2] / "js_harness"
VENDOR = HARNESS / "vendor"
PACKAGE = HARNESS / "node_modules" / "wgsl_reflect"
VERSION = "1.6.0"
SHA256 = {
    "wgsl_reflect.module.js": "74c61e5fe3dfe6dc2cceeb9924347c9c897d94e4bff16201d1418f25db9f2d9e",
    "wgsl_reflect.LICENSE.md": "99d01341499d1e5fa0e27b6cfafd6bfc869ad9e2f060255229869107fdc5537c",
}
"""Of package/wgsl_reflect.module.js and package/LICENSE.md in the registry's tarball of that version."""


def test_the_interpreter_is_the_package_s_own_file() -> None:
    assert {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in SHA256} == SHA256


def test_it_is_the_version_that_is_pinned() -> None:
    assert json.loads((HARNESS / "package.json").read_text())["devDependencies"]["wgsl_reflect"] == VERSION
    locked = json.loads((HARNESS / "package-lock.json").read_text())["packages"]["node_modules/wgsl_reflect"]
    assert locked["version"] == VERSION
    assert len(base64.b64decode(locked["integrity"].removeprefix("sha512-"))) == 64
    if PACKAGE.is_dir():  # as `npm ci` leaves it
        assert (PACKAGE / "wgsl_reflect.module.js").read_bytes() == (VENDOR / "wgsl_reflect.module.js").read_bytes()


def test_its_license_is_named() -> None:
    notice = (HARNESS.parent / "NOTICE").read_text()
    assert f"wgsl_reflect {VERSION}" in notice
    assert "MIT License" in (VENDOR / "wgsl_reflect.LICENSE.md").read_text()


def test_one_module_knows_it() -> None:
    ours = [*HARNESS.glob("*.js"), *HARNESS.glob("debug/*.js"), *HARNESS.glob("stepping/*.js")]
    using = [path.name for path in ours if 'import("../vendor/wgsl_reflect.module.js");' in path.read_text()]
    assert using == ["module.js"]
