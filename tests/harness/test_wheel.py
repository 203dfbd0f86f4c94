"""The built wheel, installed into an empty environment outside the checkout, works: its data travels with it."""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_wheel_runs_outside_the_checkout(tmp_path: Path) -> None:
    """The environment sees this one's dependencies through a path file, but kernel-lab itself only from the wheel."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    install = [python, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", wheel]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = home.glob("lib/python*/site-packages")
    dependencies = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")

    where = _run([python, "-c", "import kernel_lab; print(kernel_lab.__file__)"], tmp_path)
    assert str(packages) in where.stdout, where

    harness = _run(
        [python, "-c", "from kernel_lab.serving.app import harness_files; print(*harness_files())"], tmp_path
    )
    assert {"vendor/wgsl_reflect.module.js", "stepping/stepper.js"} <= set(harness.stdout.split())
    assert list(packages.glob("kernel_lab/data/js_harness/vendor/*LICENSE*"))

    result = _run(
        [home / "bin" / "kernel-lab", "run", "ConvInteger:card_example", "ConvInteger:refused_group_0"], tmp_path
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.rstrip().endswith(" passed, 0 failed, 0 skipped")
    assert not result.stdout.rstrip().endswith("\n0 passed, 0 failed, 0 skipped")


def _run(command: list[object], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KERNEL_LAB_CACHE": str(folder / "cache")}
    environment.pop("PYTHONPATH", None)
    return subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True)
