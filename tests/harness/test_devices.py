"""The page's side of WebGPU: devices, pipelines and buffers are made as planned, and once; scopes stay balanced."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import Profile
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators import operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import plans
from kernel_lab.planning.facts import COMPUTE_FEATURES
from kernel_lab.planning.plans import Plan
from kernel_lab.serving.frames import Job

Follow = Callable[..., Verdict]
Calls = Callable[[str], list[Any]]
HIDDEN_LANGUAGE_FEATURE = "packed_4x8_integer_dot_product"
LOWERED = {"maxComputeInvocationsPerWorkgroup": 128, "maxStorageBuffersPerShaderStage": 8}

# In the order of the calls; a call that gives a promise is noted again, as "<name> ended", when it has come true.
NOTE_CALLS = """() => {
  const log = (globalThis.calls = []);
  const noted = [
    [GPUAdapter, "requestDevice", ([asked]) => ({
      features: [...(asked?.requiredFeatures ?? [])],
      limits: { ...asked?.requiredLimits },
    })],
    [GPUDevice, "createShaderModule", ([{ label }]) => label],
    [GPUDevice, "createComputePipelineAsync", ([{ label }]) => label],
    [GPUDevice, "createComputePipeline", ([{ label }]) => label],
    [GPUDevice, "createBuffer", ([{ size }]) => size],
    [GPUDevice, "pushErrorScope", ([filter]) => filter],
    [GPUDevice, "popErrorScope", () => ""],
    [GPUBuffer, "destroy", () => ""],
    [GPUQueue, "submit", ([buffers]) => buffers.length],
  ];
  for (const [type, name, describe] of noted) {
    const original = type.prototype[name];
    type.prototype[name] = function (...given) {
      log.push([name, describe(given)]);
      const result = original.apply(this, given);
      if (result instanceof Promise) result.then(() => log.push([`${name} ended`, describe(given)]), () => {});
      return result;
    };
  }
}"""


@pytest.fixture(scope="module")
def lab(lab_profile: Profile) -> Iterator[Lab]:
    with Lab(lab_profile) as own:
        yield own


@pytest.fixture
def calls(on_page: Callable[..., Any], in_page: Callable[..., Any]) -> Calls:
    """What the page has asked of WebGPU under that name since this test began, on a page that has no device yet."""
    on_page(lambda page: page.close())
    in_page(NOTE_CALLS)

    def of(name: str) -> list[Any]:
        return [what for called, what in in_page("() => calls") if called == name]

    return of


def test_pipeline_is_made_once_for_the_same_wgsl(follow: Follow, calls: Calls) -> None:
    """By the digest of the text: neither another case nor another variant with the same text compiles anew."""
    for variant, case in [("copy", "seven"), ("copy", "large"), ("twin", "seven"), ("copy", "seven")]:
        assert follow(variant, case).passed
    assert calls("createComputePipelineAsync") == ["lab.test.Copy:copy:copy"]
    assert calls("createShaderModule") == ["lab.test.Copy:copy:copy"]
    assert follow("off_by_one").outcome == "failed"
    assert calls("createComputePipelineAsync")[1:] == ["lab.test.Copy:off_by_one:copy"]
    assert calls("createComputePipeline") == [], "which would stall the page"


def test_pipeline_that_failed_is_tried_again(follow: Follow, calls: Calls) -> None:
    """A failure is no pipeline: it is not kept, and the second report says as much as the first."""
    first, second = follow("type_error"), follow("type_error")
    assert first.record["status"] == second.record["status"] == "compile_error"
    assert first.report == second.report
    assert len(calls("createShaderModule")) == 2


def test_prepare_compiles_in_parallel_and_runs_compile_nothing(
    lab: Lab, job: Callable[..., Job], in_page: Callable[..., Any], calls: Calls
) -> None:
    jobs = [job(variant) for variant in ("copy", "twin", "off_by_one", "unwritten", "past_the_end")]
    lab.prepare([one.plan for one in jobs])
    made = [name for name, _ in in_page("() => calls") if name.startswith("createComputePipelineAsync")]
    assert made == ["createComputePipelineAsync"] * 4 + ["createComputePipelineAsync ended"] * 4
    modules = len(calls("createShaderModule"))
    for one in jobs:
        assert lab.run(one).status == "ok"
    assert len(calls("createComputePipelineAsync")) == 4
    assert len(calls("createShaderModule")) == modules


def test_prepare_leaves_faults_to_the_runs(
    lab: Lab, follow: Follow, planned: Callable[..., Plan], calls: Calls
) -> None:
    lab.prepare([planned("type_error"), planned("copy")])
    assert follow("type_error").record["status"] == "compile_error"
    assert follow("copy").passed
    assert calls("createComputePipelineAsync").count("lab.test.Copy:copy:copy") == 1


def test_one_device_for_each_set_of_features_and_limits(lab: Lab, follow: Follow, calls: Calls) -> None:
    """Requested with exactly what the plan names: no more features, and no limit left to its default."""
    if "timestamp-query" not in lab.facts.features:
        pytest.fail("this test needs an adapter with timestamp-query, which every software adapter has")
    for variant in ("copy", "timed", "twin", "timed", "copy"):
        assert follow(variant).passed
    limits = {name: lab.facts.limits[name] for name in plans.REQUESTED_LIMITS}
    assert calls("requestDevice") == [
        {"features": [], "limits": limits},
        {"features": ["timestamp-query"], "limits": limits},
    ]


def test_masks_reach_planning_and_the_device(
    lab_profile: Profile, copy_operator: Operator, copy_case: Callable[[str], Case]
) -> None:
    """A poorer adapter on a richer one: features and language features are hidden, limits are lowered."""
    hidden = ("timestamp-query", HIDDEN_LANGUAGE_FEATURE)
    with Lab(replace(lab_profile, hidden=hidden, limits=LOWERED)) as poorer:
        assert not set(hidden) & (poorer.facts.features | poorer.facts.language_features)
        assert {name: poorer.facts.limits[name] for name in LOWERED} == LOWERED
        poorer.host.call(poorer.browser.page.evaluate(NOTE_CALLS))
        case = copy_case("seven")
        for variant, missing in [("timed", "timestamp-query"), ("wants_packed_dot", HIDDEN_LANGUAGE_FEATURE)]:
            verdict = line.follow(copy_operator, case, poorer, variant)
            assert verdict.outcome == "skipped"
            assert f"{missing}" in verdict.summary
            assert "this profile masks it" in verdict.summary
        assert line.follow(copy_operator, case, poorer, "copy").passed
        made = poorer.host.call(poorer.browser.page.evaluate("() => calls"))
        (asked,) = [what for name, what in made if name == "requestDevice"]
        assert asked["limits"].items() >= LOWERED.items()


def test_language_feature_that_is_there_is_used(lab: Lab, follow: Follow) -> None:
    """The twin of the masked one: without a mask the variant runs."""
    assert HIDDEN_LANGUAGE_FEATURE in lab.facts.language_features
    assert follow("wants_packed_dot").passed


def test_error_scopes_stay_balanced(follow: Follow, calls: Calls) -> None:
    """Many faulty runs, on devices that live on and on devices that are thrown away; then every fault is still told."""
    for _ in range(8):
        assert follow("type_error").record["status"] == "compile_error"
        assert follow("too_wide").record["status"] == "validation_error"
        assert follow("swapped_access").record["status"] == "validation_error"
        assert follow("copy").passed
    assert len(calls("pushErrorScope")) == len(calls("popErrorScope"))
    assert len(calls("pushErrorScope")) > 8 * 4


def test_error_that_no_promise_tells_is_caught(lab: Lab, job: Callable[..., Job], calls: Calls) -> None:
    """Pipeline and bind group are fine; only a scope around finish and submit hears that they do not fit together."""
    result = lab.run(job("fixed_size"))
    assert result.status == "validation_error"
    assert result.outputs == {}
    (said,) = result.messages
    assert said.scope == "submit"
    assert said.label == "lab.test.Copy:fixed_size"
    assert said.text
    assert lab.run(job("copy")).equal == {"y"}


def test_compile_error_keeps_the_device(follow: Follow, calls: Calls) -> None:
    """It says nothing against the device, whose other pipelines are worth keeping."""
    assert follow("copy").passed
    assert follow("type_error").record["status"] == "compile_error"
    assert follow("copy").passed
    assert len(calls("requestDevice")) == 1
    assert calls("createComputePipelineAsync").count("lab.test.Copy:copy:copy") == 1


@pytest.mark.parametrize(("case", "runs"), [("seven", 200), ("smallest_fetched", 20)])
def test_buffers_are_used_again(lab: Lab, job: Callable[..., Job], calls: Calls, case: str, runs: int) -> None:
    """The number of live buffers after many runs is that after a few; only what arrives by GET is made anew."""
    asked = job("copy", case)
    for _ in range(3):
        assert lab.run(asked).equal == {"y"}
    made, destroyed = len(calls("createBuffer")), len(calls("destroy"))
    for _ in range(runs - 3):
        assert lab.run(asked).equal == {"y"}
    fetched = (runs - 3) if case == "smallest_fetched" else 0
    assert len(calls("createBuffer")) - made == fetched
    assert len(calls("destroy")) - destroyed == fetched


@pytest.mark.parametrize("case", ["seven", "large"])
def test_buffers_hold_poison_before_each_run(lab: Lab, job: Callable[..., Job], case: str) -> None:
    """A pooled buffer still holds the last run's output: without fresh poison an unwritten word would look right."""
    assert lab.run(job("copy", case)).equal == {"y"}
    result = lab.run(job("unwritten", case))
    assert result.outputs["y"].reshape(-1)[2] == plans.POISON
    assert result.outputs["y"].reshape(-1)[3] != plans.POISON


def test_kernels_of_a_page_share_one_device(
    lab: Lab, copy_operator: Operator, in_page: Callable[..., Any], calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever features their variants need: else the output of one could not stay on the GPU as another's input."""

    def only(variant: str) -> Operator:
        made = replace(copy_operator)
        manifest = copy_operator.manifest.model_copy(update={"variants": [copy_operator.variant(variant)]})
        made.__dict__["manifest"] = manifest
        return made

    operators = {"lab.test.Plain": only("copy"), "lab.test.Timed": only("timed")}
    monkeypatch.setattr(operator, "load_all", lambda: operators)
    found = in_page("""async () => {
      const { getKernel } = await import("/harness/kernels.js");
      let x = { data: new Uint32Array([3, 1, 4, 1, 5]), shape: [5] };
      for (const id of ["lab.test.Plain", "lab.test.Timed", "lab.test.Plain", "lab.test.Timed"]) {
        const kernel = await getKernel(id, { version: 1 });
        x = (await kernel({ x }, { output: "gpu" })).y;
      }
      const kernel = await getKernel("lab.test.Plain", { version: 1 });
      return Array.from((await kernel({ x })).y.data);
    }""")
    assert found == [3, 1, 4, 1, 5]
    (asked,) = calls("requestDevice")
    assert asked["features"] == sorted(lab.facts.features.intersection(COMPUTE_FEATURES))


def test_a_run_is_one_submit(follow: Follow, calls: Calls) -> None:
    """Uploads, passes, guards and readback go together: a run waits once."""
    assert follow("copy").passed
    assert follow("copy", "large").passed
    assert calls("submit") == [1, 1]
