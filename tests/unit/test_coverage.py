"""Coverage keeps three words apart: ran, emulated, unreachable."""

from pathlib import Path

from kernel_lab.judging.coverage import coverage, journals_in
from kernel_lab.judging.journal import Journal
from kernel_lab.operators.operator import load_packages

OPERATORS = Path(__file__).parent.parent / "operators"


def _record(variant: str, outcome: str, **more: object) -> dict[str, object]:
    names = {"operator": "lab.test.Copy", "case": "seven", "variant": variant}
    return {"type": "result", **names, "outcome": outcome, "summary": "needs the feature 'shader-f16'.", **more}


def test_words(tmp_path: Path) -> None:
    for label, records in {
        "one": [_record("copy", "passed"), _record("copy", "passed"), _record("wants_f16", "skipped")],
        "two": [_record("slow", "passed", emulated=True), _record("off_by_one", "failed")],
    }.items():
        journal = Journal(
            tmp_path / label, {"adapter": {"info": {"description": f"adapter {label}", "vendor": "borrowed"}}}
        )
        for record in records:
            journal.append(record)
        journal.close()
    found = coverage(load_packages([OPERATORS]).values(), journals_in(tmp_path))
    told = {entry.variant: (entry.word, entry.told) for entry in found}
    assert told["copy"] == ("ran", "ran 2 cases on adapter one")
    assert told["slow"] == ("emulated", "emulated 1 cases on adapter two")
    assert told["wants_f16"] == ("unreachable", "adapter one: needs the feature 'shader-f16'.")
    assert told["off_by_one"][0] == "unreachable", "a variant that only fails is not covered"
    assert told["endless"] == ("unreachable", "no journal speaks of it")
