"""Debug runs in a real browser: values and their order, whose they are, what does not fit, who wrote what."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_lab import cli, line
from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import inspect as inspect_verb
from kernel_lab.debugging import inspecting, writers
from kernel_lab.debugging.inspecting import Element, Inspection
from kernel_lab.debugging.instrument import BUFFER
from kernel_lab.debugging.probing import Probed, Probes
from kernel_lab.debugging.records import CAPACITY, EVERY, Choice
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import scopes
from kernel_lab.planning.scopes import Scope
from kernel_lab.serving import frames

OPERATORS = Path(__file__).parent.parent / "operators"
FOUR_SUMS = operator.load_all(OPERATORS)["lab.test.FourSums"]
CONV_INTEGER = operator.named("ai.onnx.ConvInteger")

Look = Callable[..., Inspection]


@pytest.fixture
def look(lab: Lab) -> Look:
    """Inspects one case of an operator (the four sums, if none is named) on that variant."""

    def inspect(
        variant: str, look_at: Element | Choice, op: Operator = FOUR_SUMS, case: Case | None = None
    ) -> Inspection:
        case = case or op.cases[0]
        scope = scopes.scope_of(op, case.request)
        assert isinstance(scope, Scope)
        return inspecting.inspect(scope, op.variant(variant), lab.facts, case.inputs, look_at, lab.run)

    return inspect


def brief(values: tuple[Probed, ...]) -> list[tuple[str, Any]]:
    return [(one.name, one.value) for one in values]


def probes(found: Inspection) -> Probes:
    assert found.probes is not None
    return found.probes


X = FOUR_SUMS.cases[0].inputs["x"].tolist()


def whole_program(index: int, way: str) -> list[tuple[str, Any]]:
    """What the probes of one invocation say, by the reference's own arithmetic."""
    said: list[tuple[str, Any]] = []
    total = 0
    for value in X[4 * index : 4 * index + 4]:
        total += value
        said += [("value", value), ("sum", total)]
    less = 1 - total
    said += [("less", less), ("half", total / 2), ("even", total % 2 == 0), ("four", (less, 2, 3, -4))]
    return [*said, (f"two_{way}", (float(total), 1.0))]


def test_a_loop_with_a_helper_function_is_shown_in_program_order(look: Look) -> None:
    found = probes(look("plain", Choice("global", (5, 0, 0))))
    assert brief(found.values) == whole_program(5, "plain")
    assert [one.order for one in found.values] == list(range(len(found.values)))
    assert {one.invocation.global_invocation_id for one in found.values} == {(5, 0, 0)}
    assert found.values[0].invocation.workgroup_id == (1, 0, 0)
    assert found.values[0].invocation.local_invocation_index == 1
    assert (found.lost, found.silent) == (0, ())


def test_an_invocation_is_chosen_by_its_workgroup_too(look: Look) -> None:
    found = probes(look("plain", Choice("workgroup", (1, 0, 0), 1)))
    assert brief(found.values) == whole_program(5, "plain")


def test_all_invocations_of_a_small_dispatch_each_in_order(look: Look) -> None:
    found = probes(look("plain", EVERY))
    for index in range(6):
        own = tuple(one for one in found.values if one.invocation.global_invocation_id == (index, 0, 0))
        assert brief(own) == whole_program(index, "plain")
    assert len(found.values) == sum(len(whole_program(index, "plain")) for index in range(6))


def test_an_invocation_that_stops_early_is_silent_and_so_are_its_probes(look: Look) -> None:
    found = probes(look("plain", Choice("global", (7, 0, 0))))
    assert found.values == ()
    assert [site.name for site in found.silent][:3] == ["value", "sum", "less"]


def test_probes_around_barriers_and_subgroup_operations(look: Look) -> None:
    found = probes(look("together", EVERY))
    for index in range(8):
        own = tuple(one for one in found.values if one.invocation.global_invocation_id == (index, 0, 0))
        expected = [("before", index), ("between", index // 4 * 4 + 3), ("behind", True)]
        assert brief(own) == expected + (whole_program(index, "together") if index < 6 else [])


def test_what_does_not_fit_is_told(look: Look) -> None:
    one = probes(look("long", Choice("global", (2, 0, 0))))
    assert (len(one.values), one.lost) == (len(whole_program(2, "long")) + 3000, 0)
    assert [value for name, value in brief(one.values) if name == "turn"] == list(range(3000))
    every = probes(look("long", EVERY))
    assert len(every.values) == CAPACITY
    assert every.lost == 6 * 3000 + sum(len(whole_program(index, "long")) for index in range(6)) - CAPACITY
    assert every.silent == ()  # who did not speak is not known


def test_the_wrong_type_is_the_compilers_word_at_the_templates_line(look: Look) -> None:
    with pytest.raises(LabError) as error:
        look("mistyped", EVERY)
    assert "the debug run ended with compile_error" in str(error.value)
    number = next(
        n
        for n, text in enumerate((FOUR_SUMS.folder / "four-sums.wgsl.jinja").read_text().split("\n"), 1)
        if '"wrong"' in text
    )
    assert f"four-sums.wgsl.jinja:{number} (template)" in str(error.value)


# Writers.


@pytest.mark.parametrize(("way", "stores"), [("plain", 1), ("twice", 2), ("atomic", 2), ("component", 1)])
def test_each_form_of_a_store_names_its_invocation(look: Look, way: str, stores: int) -> None:
    for index in range(6):
        found = look(way, Element("y", (index,)))
        assert found.value == sum(X[4 * index : 4 * index + 4])
        assert found.writers is not None
        assert [one.invocation.global_invocation_id for one in found.writers.found] == [(index, 0, 0)] * stores
        assert [one.order for one in found.writers.found] == list(range(stores))
        assert found.writers.shared == 1
        assert brief(probes(found).values) == whole_program(index, way)


def test_a_store_through_a_pointer_is_no_wrong_answer_but_a_sentence(look: Look) -> None:
    with pytest.raises(LabError, match=r"four-sums\.wgsl\.jinja:\d+: who writes here is not known, because a pointer"):
        look("pointer", Element("y", (0,)))


@pytest.mark.parametrize("way", ["copy", "off_by_one", "past_the_end", "unwritten", "slow"])
def test_variants_that_are_wrong_are_looked_into(
    look: Look, copy_operator: Operator, copy_case: Callable[[str], Case], way: str
) -> None:
    """Invocation i owns word i; what is wrong is the value, not the writer."""
    case = copy_case("seven")
    for index in (0, 2, 5):
        found = look(way, Element("y", (index,)), copy_operator, case)
        assert found.writers is not None
        assert [one.invocation.global_invocation_id for one in found.writers.found] == [(index, 0, 0)]
        right = int(case.inputs["x"][index])
        wrong = {("off_by_one", 5): right + 1, ("unwritten", 2): 0xA5A5A5A5}
        assert found.value == wrong.get((way, index), right)
        assert found.probes is None


def test_nobody_wrote_what_no_invocation_reaches(
    lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]
) -> None:
    """Of 150,003 elements, only the first workgroup's are written if there is but one."""
    case = copy_case("large")
    scope = scopes.scope_of(copy_operator, case.request)
    assert isinstance(scope, Scope)
    whole = line.plan(scope, line.decide(scope, lab.facts)[0], lab.facts)
    few = replace(whole, passes=(replace(whole.passes[0], workgroups=(1, 1, 1)),))
    for element, written in ((63, True), (64, False)):
        plan, decode = writers.writers_of(few, "y", (0, element))
        result = lab.run(frames.job_of(plan, case.inputs, None, line.DEADLINE_MS, (BUFFER,)))
        assert bool(decode(result.read[BUFFER]).found) == written
        assert (result.outputs["y"][0, element] != 0xA5A5A5A5) == written


# A real kernel.


def test_the_probed_sum_of_a_convolution_is_the_references(look: Look, tmp_path: Path) -> None:
    """accumulate_spatial: invocation i owns word i of y, and ends with its sum."""
    template = "conv-int-accumulate-spatial.wgsl.jinja"
    text = next(
        folder / template for folder in CONV_INTEGER.template_folders if (folder / template).is_file()
    ).read_text()
    store = "  sums[element] = u32(sum);"
    assert text.count(store) == 1
    sum_up = "          sum += x_centred * w_centred;"
    assert text.count(sum_up) == 1
    text = text.replace(store, f'  {{{{ probe("sum", "sum") }}}}\n{store}')
    text = text.replace(sum_up, f'          {{{{ probe("product", "x_centred * w_centred") }}}}\n{sum_up}')
    (tmp_path / template).write_text(text)
    probed = operator.with_templates(CONV_INTEGER, tmp_path)
    case = next(case for case in CONV_INTEGER.cases if case.name == "groups")
    right = CONV_INTEGER.reference.compute(case.inputs, case.request.attrs)["y"]
    for flat in (0, right.size // 2, right.size - 1):
        index = tuple(int(at) for at in np.unravel_index(flat, right.shape))
        found = look("accumulate_spatial", Element("y", index), probed, case)
        assert found.value == right[index]
        assert found.writers is not None
        [writer] = found.writers.found
        workgroup, local = divmod(flat, 64)
        assert (writer.invocation.workgroup_id, writer.invocation.local_invocation_index) == ((workgroup, 0, 0), local)
        values = probes(found).values
        assert (values[-1].name, values[-1].value) == ("sum", right[index])
        products = [one.value for one in values[:-1]]
        assert len(products) > 1
        assert sum(int(value) for value in products if not isinstance(value, tuple)) == right[index]


# The command.


def test_the_command_shows_writer_and_probes_and_as_json_the_same(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Borrowed:
        """The lab that runs already."""

        def __init__(self, profile: object) -> None: ...

        def __enter__(self) -> Lab:
            return lab

        def __exit__(self, *_: object) -> None: ...

    def say(*words: str) -> str:
        query = ("inspect", "FourSums:six:plain", "--package", str(OPERATORS))
        monkeypatch.setattr(sys, "argv", ["kernel-lab", *query, *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        return capsys.readouterr().out

    monkeypatch.setattr(inspect_verb, "Lab", Borrowed)
    said = say("--element", "y[5]")
    assert "y[5] = 202\n  stored by workgroup [1, 0, 0], local index 1, global id [5, 0, 0]\n" in said
    assert re.search(r"^ +7  sum +202  u32  \(four-sums\.wgsl\.jinja:\d+\)$", said, re.M)
    told = json.loads(say("--element", "y[5]", "--json"))
    assert told["element"]["value"] == 202
    assert told["element"]["writers"][0]["invocation"]["global_invocation_id"] == [5, 0, 0]
    assert told["inspected"] == told["element"]["writers"][0]["invocation"]
    assert [(one["name"], one["value"]) for one in told["probes"]][:2] == [("value", 43), ("sum", 43)]
    assert json.loads(say("--invocation", "7", "--json"))["probes_silent"][0]["name"] == "value"
    assert say("--all").count("pass sum, workgroup") == 6
