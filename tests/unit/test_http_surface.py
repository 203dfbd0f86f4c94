"""Property tests of all that HTTP reaches: whatever is asked, the answer is a file or a sentence, soon, never a 5xx.

Two sources of questions: schemathesis, from an OpenAPI document made here (the server publishes none), and requests of
our own cases with one thing changed, which get further than made-up JSON. KERNEL_LAB_EXAMPLES=N draws N new ones.
"""

import asyncio
import copy
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from schemathesis import GenerationMode
from starlette.types import Message

from kernel_lab.debugging import questions
from kernel_lab.debugging.desk import Desk
from kernel_lab.operators import operator
from kernel_lab.planning.facts import COMPUTE_FEATURES
from kernel_lab.serving import planner, request_body
from kernel_lab.serving.app import create_app
from kernel_lab.serving.hub import Hub

Json = dict[str, Any]
PORT = 8770
ADDRESS = f"http://127.0.0.1:{PORT}"
Soon = Callable[..., AbstractContextManager[None]]

HUB = Hub(planner.answer, Desk(operator.load_all()))
APP = create_app(HUB)
COOKIE = f"kernel_lab_{PORT}"
HUB.served["/blobs/1/1/x"] = b"\0\1\2\3"


def judge(status: int, headers: Mapping[str, str], body: bytes, planned: bool = True) -> None:
    """A file, a plan or a refusal; or a sentence that says why not. `planned`: 200 with JSON must be a plan's."""
    assert status in (200, 400, 404, 405, 413), body
    kind = headers["content-type"].partition(";")[0]
    if status == 200 and kind != "application/json":
        assert kind in ("text/html", "text/javascript", "text/css", "application/octet-stream")
        return
    answer = json.loads(body)
    if status == 200 and not planned:
        return
    if status == 200:
        assert answer.keys() in ({"refused"}, PLANNED), answer
    sentence = answer.get("refused") if status == 200 else answer["error"]
    assert sentence is None or (isinstance(sentence, str) and sentence.endswith((".", "!", "?", ")"))), sentence


PLANNED = {"plan", "wgsl", "valueChecks", "outputs", "decisions", "operator"}


# What schemathesis makes of the OpenAPI document.


BODIES: Mapping[str, type[BaseModel]] = {
    "/plan": planner.PlanRequest,
    "/debug/specimen": questions.SpecimenAsked,
    "/debug/element": questions.ElementAsked,
    "/debug/inspect": questions.InspectAsked,
    "/debug/save": questions.SaveAsked,
}


def document() -> Json:
    """The application's OpenAPI document, with the bodies that it reads by itself."""
    inner: FastAPI = APP._app  # type: ignore[attr-defined]  # an ASGI app; ours is a Guard around FastAPI's
    made: Json = copy.deepcopy(inner.openapi())
    for path, form in BODIES.items():
        body = form.model_json_schema(ref_template="#/components/schemas/{model}")
        made.setdefault("components", {}).setdefault("schemas", {}).update(body.pop("$defs", {}))
        content = {"application/json": {"schema": body}}
        made["paths"][path]["post"]["requestBody"] = {"required": True, "content": content}
    return made


SURFACE = schemathesis.openapi.from_dict(document())
ASKED = {
    "page": SURFACE["/"]["GET"],
    "file": SURFACE["/harness/{name}"]["GET"],
    "input": SURFACE["/blobs/{page}/{number}/{name}"]["GET"],
    "plan": SURFACE["/plan"]["POST"],
    "debug": SURFACE["/debug"]["GET"],
    "catalogue": SURFACE["/debug/catalogue"]["GET"],
    "stamp": SURFACE["/debug/stamp/{name}"]["GET"],
    **{path.rpartition("/")[2]: SURFACE[path]["POST"] for path in BODIES if path != "/plan"},
}


def test_the_document_has_every_route_but_the_websocket() -> None:
    assert len(ASKED) == sum(len(item) for item in document()["paths"].values())


FEW = settings(max_examples=-(-settings.default.max_examples // 5))  # one takes schemathesis up to 0.1 s
POSTS = [path.rpartition("/")[2] for path in BODIES]
MODES = [*((name, GenerationMode.POSITIVE) for name in ASKED), *((name, GenerationMode.NEGATIVE) for name in POSTS)]
"""Of a path's texts none can be wrong."""


@pytest.mark.parametrize(("name", "mode"), MODES)
@FEW
@given(data=st.data())
def test_whatever_is_asked_is_answered(soon: Soon, name: str, mode: GenerationMode, data: st.DataObject) -> None:
    case = data.draw(ASKED[name].as_strategy(mode))
    with soon():
        answer = case.call(ADDRESS, app=APP, cookies={COOKIE: HUB.token})
    headers = {key: values[0] for key, values in answer.headers.items()}
    judge(answer.status_code, headers, answer.content, name == "plan")


@pytest.mark.parametrize("name", ASKED)
@FEW
@given(data=st.data())
def test_whatever_is_asked_without_the_token_is_refused(name: str, data: st.DataObject) -> None:
    answer = data.draw(ASKED[name].as_strategy(GenerationMode.POSITIVE)).call(ADDRESS, app=APP)
    assert answer.status_code == 403
    assert answer.content.startswith(b"this server's token is missing")


# Requests of our cases, with one thing changed.

MATRICES = [
    {"componentType": kind, "resultComponentType": result, "M": 8, "N": 8, "K": 8}
    for kind, result in (("f16", "f32"), ("f32", "f32"), ("i8", "i32"), ("u8", "u32"))
]
FACTS = [
    {"adapter": {"description": "made up"}, "features": [], "languageFeatures": [], "limits": {}},
    {
        "adapter": {"vendor": "x", "subgroupMinSize": 32, "subgroupMaxSize": 32, "subgroupMatrixConfigs": MATRICES},
        "features": list(COMPUTE_FEATURES),
        "languageFeatures": ["packed_4x8_integer_dot_product", "chromium_experimental_subgroup_matrix"],
        "limits": dict.fromkeys(planner.WEBGPU_DEFAULT_LIMITS, 2**31),
    },
]


def asked_by_cases() -> Iterator[Json]:
    for op in operator.load_all().values():
        for case, facts in itertools.product(op.cases, FACTS):
            request = case.request
            shapes = {role: list(shape) for role, shape in request.shapes.items()}
            yield {
                "op": op.id, "version": 1, "dtypes": dict(request.dtypes), "shapes": shapes,
                "attrs": dict(request.attrs), "facts": facts, "variant": None,
            }  # fmt: skip


REQUESTS = list(asked_by_cases())
ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            None, True, -1, 0, 1, 2, 3, 7, 64, 65, 255, 2**16, 2**31, 2**32, 2**53 - 1, 2**53, 2**63, 2**64, -(2**63),
            10**30, 10**4000, 0.5, -0.0, 1e300, float("nan"), float("inf"), "", "x", "\0", "\ud800", "\U000f0001", "€",
            "{{ 7 * 7 }}", "{% for x in y %}", "\n", "../../etc/passwd", "uint8", "float16", "SAME_UPPER", "NOTSET", [],
            {}, [[]], [None], [0] * 65, [2**53 - 1] * 4, [1] * 5000, [3] * 64, {"a": {"b": []}}, "x" * 5000,
        ]
    ),
    st.integers(-8, 40),
    st.lists(st.integers(-2, 9), max_size=9),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
        max_leaves=8,
    ),
)  # fmt: skip
NAMES = st.sampled_from(
    [
        *("x", "w", "x_scale", "x_zero_point", "w_scale", "B", "y", "axis", "block_size", "pads", "strides", "group"),
        *("dilations", "kernel_shape", "auto_pad", "channels_last", "saturate", "output_dtype", "subgroupMinSize"),
        *("subgroupMatrixConfigs", "M", "maxBufferSize", "reason", "", "\ud800", "__class__", "self", "loop"),
    ]
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every object or list in it with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


@st.composite
def changed(draw: st.DrawFn) -> Json:
    """A case's request in which one thing is another value, missing or new."""
    request = copy.deepcopy(draw(st.sampled_from(REQUESTS)))
    holder, key = draw(st.sampled_from(list(places(request))))
    change = draw(st.sampled_from(["other", "other", "missing", "new"]))
    if change == "missing":
        del holder[key]
    elif change == "other":
        holder[key] = draw(ODD)
    elif isinstance(holder, dict):
        holder[draw(NAMES)] = draw(ODD)
    else:
        holder.insert(key, draw(ODD))
    return request


@given(request=changed())
def test_a_case_s_request_with_one_thing_changed_is_answered(soon: Soon, request: Json) -> None:
    with soon():
        ask(json.dumps(request).encode())


@given(request=st.sampled_from(REQUESTS), at=st.integers(0, 600), what=st.binary(max_size=4), cut=st.booleans())
def test_a_case_s_request_with_some_bytes_changed_is_answered(
    soon: Soon, request: Json, at: int, what: bytes, cut: bool
) -> None:
    body = json.dumps(request).encode()
    with soon():
        ask(body[:at] + what + (b"" if cut else body[at + len(what) :]))


@given(method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "x"]), path=st.text())
def test_any_method_and_path_is_answered(method: str, path: str) -> None:
    status, headers, body = asyncio.run(called(method, f"/{path}", [b"{}"]))
    judge(status, headers, body or b'{"error": "."}')  # to HEAD there is no body


def ask(body: bytes) -> Json:
    """What POST /plan answers to it."""
    status, headers, answer = asyncio.run(called("POST", "/plan", [body]))
    judge(status, headers, answer)
    found: Json = json.loads(answer)
    return found


async def called(method: str, path: str, chunks: Iterable[bytes]) -> tuple[int, Mapping[str, str], bytes]:
    """The application itself, with the token: what it raises is raised here."""
    pieces, sent = itertools.chain(chunks, [b""]), list[Message]()

    async def receive() -> Message:
        if (piece := next(pieces, None)) is None:
            await asyncio.Event().wait()  # as a client that stays until it has its answer
        return {"type": "http.request", "body": piece, "more_body": piece != b""}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"cookie", f"{COOKIE}={HUB.token}".encode())]
    about = {"method": method, "path": path, "raw_path": quote(path).encode(), "query_string": b"", "root_path": ""}
    server = {"http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", PORT), "client": ("127.0.0.1", 1)}
    await APP({"type": "http", **about, **server, "headers": headers}, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(message.get("body", b"") for message in sent[1:])


# What the above have found, or should have.


def one(change: Json, facts: Json | None = None, adapter: Json | None = None) -> Json:
    dtypes, shapes = {"x": "uint8", "x_scale": "float32"}, {"x": [4], "x_scale": []}
    request = {"op": "ai.onnx.DequantizeLinear", "dtypes": dtypes, "shapes": shapes}
    made = {**request, "facts": {**FACTS[0], **(facts or {})}, **change}
    if adapter is not None:
        made["facts"] = {**made["facts"], "adapter": adapter}
    return made


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (one({"shapes": {"x": [9] * 20_000, "x_scale": []}}), "may hold 4,096"),
        (one({"shapes": {"x": [9] * 65, "x_scale": []}}), "shapes.x: got rank 65; the rank may be at most 64."),
        (one({"shapes": {"x": [9] * 64, "x_scale": []}}), "a tensor may have at most 9,007,199,254,740,991 elements."),
        (one({"shapes": {"x": [0, 2**53], "x_scale": []}}), "a tensor may have at most"),
        (one({"shapes": {"x": [10**4000], "x_scale": []}}), "an integer beyond 36,893,488,147,419,103,232."),
        (one({"dtypes": {"x": "\ud800", "x_scale": "float32"}}), "must be JSON: "),
        (one({}, {"adapter": None, "reason": "\ud800"}), "must be JSON: "),
        (one({}, {"features": ["\ud800"]}), "must be JSON: "),
        (one({"attrs": {"axis": float("nan")}}), "must be JSON: "),
        (one({}, {"limits": {"maxBufferSize": -1}}), "facts.limits.maxBufferSize: "),
        (one({}, adapter={"subgroupMatrixConfigs": 5}), "facts.adapter.subgroupMatrixConfigs: "),
        (one({}, adapter={"subgroupMatrixConfigs": [1]}), "facts.adapter.subgroupMatrixConfigs.0: "),
        (one({}, adapter={"subgroupMatrixConfigs": [{"M": []}]}), "facts.adapter.subgroupMatrixConfigs.0.M"),
        (one({}, adapter={"subgroupMinSize": "x"}), "facts.adapter.subgroupMinSize: "),
    ],
)  # fmt: skip
def test_what_no_plan_can_be_made_of_is_a_sentence(request_: Json, sentence: str) -> None:
    assert sentence in ask(json.dumps(request_).encode())["error"]


@pytest.mark.parametrize(("digits", "sentence"), [("1e999", "that no float64 can hold"), ("9" * 5000, "out of range")])
def test_a_number_too_large_to_be_kept_is_a_sentence(digits: str, sentence: str) -> None:
    body = json.dumps(one({"attrs": {"axis": 7}})).replace('"axis": 7', f'"axis": {digits}')
    assert sentence in ask(body.encode())["error"]


def test_the_limits_that_a_page_may_state_hold_webgpu_s_greatest() -> None:
    """JavaScript prints 2^64 - 1, which it cannot hold, as 18446744073709552000."""
    assert ask(json.dumps(one({}, {"limits": {"maxBufferSize": 18446744073709552000}})).encode()).keys() == PLANNED


def test_a_body_is_read_up_to_the_limit_and_no_further() -> None:
    read = []

    def much() -> Iterator[bytes]:
        for _ in range(1000):
            read.append(8192)
            yield b" " * 8192

    status, _, answer = asyncio.run(called("POST", "/plan", much()))
    assert (status, json.loads(answer)["error"]) == (413, "POST /plan: the body of a request may have 65,536 bytes.")
    assert sum(read) == request_body.MAX_BYTES + 8192


# What the debug page asks, about cases that there are.

COUNTS = st.integers(-3, 5) | st.integers(-(2**40), 2**40)
LOOKS = st.fixed_dictionaries(
    {"query": st.sampled_from(["ConvInteger:groups:accumulate_spatial", "DequantizeLinear:onnx_int4:general"])},
    optional={
        "buffer": st.sampled_from(["y", "x", "sums", "accumulate.params", "nothing", ""]),
        "index": st.lists(COUNTS, max_size=5),
        "run_pass": st.sampled_from(["accumulate", "nothing", None]),
        "workgroup": st.lists(COUNTS, min_size=3, max_size=3),
        "local_index": COUNTS,
        "words": st.binary(max_size=240).map(bytes.hex) | st.text(max_size=9),
        "mask": st.lists(st.sampled_from(["subgroups", "shader-f16"]), max_size=2),
    },
)


@FEW
@given(look=LOOKS)
def test_whatever_is_looked_at_is_answered(soon: Soon, look: Json) -> None:
    facts = {"adapter": {"vendor": "v"}, "features": sorted(COMPUTE_FEATURES)}
    body = json.dumps({**look, "facts": facts}).encode()
    with soon():
        status, headers, answer = asyncio.run(called("POST", "/debug/inspect", [body]))
    judge(status, headers, answer, planned=False)
