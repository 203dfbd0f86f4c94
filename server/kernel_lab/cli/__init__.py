"""The command line: one verb per use; each calls the functions that the tests call."""

import sys

import typer

from kernel_lab.cli import (
    bench,
    bisect,
    browsers,
    compare,
    debug,
    explain,
    inspect,
    listing,
    matrix,
    mutate,
    onnx_verb,
    reduce,
    report,
    run,
    save,
    service,
)
from kernel_lab.errors import LabError

app = typer.Typer(
    name="kernel-lab",
    help="Render, check, debug and time WGSL kernels where they run: in a real Chromium's own WebGPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
listing.add_to(app)
explain.add_to(app)
inspect.add_to(app)
run.add_to(app)
matrix.add_to(app)
report.add_to(app)
compare.add_to(app)
bisect.add_to(app)
save.add_to(app)
reduce.add_to(app)
onnx_verb.add_to(app)
debug.add_to(app)
bench.add_to(app)
mutate.add_to(app)
browsers.add_to(app)
service.add_to(app)


def main() -> None:
    """The program. A LabError is one sentence on stderr and exit code 2."""
    try:
        app(prog_name="kernel-lab", windows_expand_args=False)
    except LabError as error:
        sys.stderr.write(f"kernel-lab: {error}\n")
        sys.exit(2)
    except SystemExit as ended:
        if ended.code == 130:  # what typer makes of Ctrl-C
            sys.stderr.write("kernel-lab: interrupted; what was judged is in the journal.\n")
        raise
