"""What kernel-lab itself costs: small cases one after the other, collection, large tensors in both directions, and what
a file saved beside the debug page sets off.

In: a Lab. Out: a JSON-like report; milliseconds, seconds, and MB/s with MB = 10^6 bytes. Nothing is judged here.
"""

import asyncio
import hashlib
import secrets
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import numpy as np

from kernel_lab import runs
from kernel_lab.benching import reloading
from kernel_lab.browsing.lab import Lab
from kernel_lab.judging.verdicts import finding
from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import plans, scopes
from kernel_lab.planning.plans import Plan, PlannedBuffer, PlannedOutput
from kernel_lab.queries import Query
from kernel_lab.runs import Pair
from kernel_lab.serving.frames import Job
from kernel_lab.serving.hub import Link
from kernel_lab.session import Session

SMALL_ELEMENTS = 4096
LARGE_BYTES = 64 * 2**20
COLLECTED_PAIRS = 5000
ROUNDS = 3
RELOADS = 10
DEADLINE_MS = 60_000


def measure(lab: Lab, cases: int) -> dict[str, Any]:
    """The whole report."""
    return {
        "small_cases": small_cases(lab, cases),
        "collection": collection(),
        "large": large(lab),
        "reload": reloading.measure(lab, RELOADS),
    }


def small_cases(lab: Lab, count: int) -> dict[str, Any]:
    """`count` built-in cases of at most 4,096 elements as `run` runs them, each a new Case of which nothing is
    remembered. `own_ms`: what one takes beyond the median GPU time and readback; of its stages those that lie beside
    another case's run cost less than their sum.
    """
    chosen = list(_small())
    session = Session(lab, None)
    for _ in session.judge_each(Pair(op, case) for op, case in chosen):
        pass
    started = time.perf_counter()
    verdicts = list(session.judge_each(_never_seen(islice(cycle(chosen), count))))
    seconds = time.perf_counter() - started
    split = [_split(verdict.record["timings"]) for verdict in verdicts]
    medians = {name: statistics.median(row[name] for row in split) for name in split[0]}
    return {
        "count": count,
        "seconds": seconds,
        "failed": sum(not verdict.passed for verdict in verdicts),
        "median_ms": medians,
        "own_ms": 1e3 * seconds / count - medians["gpu"] - medians["readback"],
    }


def _never_seen(chosen: Iterable[tuple[Operator, Case]]) -> Iterator[Pair]:
    for op, case in chosen:
        scopes.forget()
        yield Pair(op, replace(case))


def _split(record: dict[str, Any]) -> dict[str, float]:
    """Where a case's time went; of the transport only what its turn had to wait for."""
    gpu, readback = record["gpu_ms"], record["readback_ms"]
    page = record["total_ms"]
    return {
        "plan": record["plan_ms"],
        "reference": record["reference_ms"],
        "transport": max(0.0, record["round_trip_ms"] - page),
        "upload": page - gpu - readback - record["digest_ms"],
        "gpu": gpu,
        "readback": readback,
        "digest": record["digest_ms"],
        "compare": record["compare_ms"],
    }


def _small() -> Iterator[tuple[Operator, Case]]:
    for op in operator.load_all().values():
        for case in op.cases:
            scope = scopes.scope_of(op, case.request) if case.refused is None else None
            if isinstance(scope, scopes.Scope):
                sizes = [dtypes.numel(shape) for shape in case.request.shapes.values()]
                sizes += [dtypes.numel(output.shape) for output in scope.outputs.values()]
                if 0 < max(sizes) <= SMALL_ELEMENTS:
                    yield op, case


def collection() -> dict[str, Any]:
    """Collecting pairs as pytest does, from requests that nobody has seen before, until there are 5,000."""
    operators = operator.load_all()
    pairs = 0
    started = time.perf_counter()
    while pairs < COLLECTED_PAIRS:
        scopes.forget()
        pairs += sum(1 for _ in runs.pairs(operators.values(), [Query()], every_variant=True))
    return {"pairs": pairs, "seconds": time.perf_counter() - started}


def large(lab: Lab) -> dict[str, Any]:
    """64 MiB each way, the best of a few rounds; bare WebSockets are the roofs of what a mismatch can reach."""
    data = np.random.default_rng(1).integers(0, 2**32, LARGE_BYTES // 4, dtype=np.uint32)
    received = _job(_input_plan(), {"x": data.tobytes()}, {})
    poison = np.full(LARGE_BYTES // 4, plans.POISON, np.uint32)
    matching = _job(_output_plan(), {}, {"y": hashlib.sha256(poison.tobytes()).hexdigest()})
    mismatching = _job(_output_plan(), {}, {"y": "0" * 64})
    seconds: dict[str, list[float]] = {
        "input": [],
        "matching_output": [],
        "mismatching_output": [],
        "bare_websocket": [],
        "bare_worker_websocket": [],
    }
    for _ in range(ROUNDS):
        result = lab.run(received)
        seconds["input"].append(result.timings["upload_ms"] / 1e3)
        result = lab.run(matching)
        assert "y" in result.equal
        seconds["matching_output"].append((result.timings["readback_ms"] + result.timings["digest_ms"]) / 1e3)
        started = time.perf_counter()
        result = lab.run(mismatching)
        arrived = time.perf_counter() - started - result.timings["total_ms"] / 1e3
        seconds["mismatching_output"].append(arrived)
        started = time.perf_counter()
        assert finding(result, {"y": poison}).right, "the bytes that came back are not the bytes that were there"
        seconds["bare_websocket"].append(lab.host.call(_sink(lab, shared=False)))
        seconds["bare_worker_websocket"].append(lab.host.call(_sink(lab, shared=True)))
    return {"bytes": LARGE_BYTES, **{name: LARGE_BYTES / 1e6 / min(values) for name, values in seconds.items()}}


def _job(plan: Plan, inputs: dict[str, bytes], expected: dict[str, str]) -> Job:
    return Job(plan, inputs, expected, DEADLINE_MS)


def _input_plan() -> Plan:
    """A plan that only takes an input in; a word of output makes the harness wait for it."""
    buffers = (_buffer("x", "input", LARGE_BYTES, None), _buffer("y", "output", 4, plans.POISON))
    return Plan("bench:input", (), _LIMITS, buffers, (), (_output(4),))


def _output_plan() -> Plan:
    return Plan(
        "bench:output", (), _LIMITS, (_buffer("y", "output", LARGE_BYTES, plans.POISON),), (), (_output(LARGE_BYTES),)
    )


_LIMITS = {"maxBufferSize": 2**28, "maxStorageBufferBindingSize": 2**27}


def _buffer(name: str, kind: Any, size: int, fill: int | None) -> PlannedBuffer:
    return PlannedBuffer(name, kind, "uint32", (size // 4,), "packed", size, 16, fill)


def _output(size: int) -> PlannedOutput:
    return PlannedOutput("y", "y", "uint32", (size // 4,), "packed", size)


_SEND = """({name, bytes, shared}) => new Promise((resolve, reject) => {
  const sending = async (address, bytes) => {
    const socket = new WebSocket(address);
    await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = reject; });
    const message = new Uint8Array(bytes + 16).fill(0xa5);
    const header = new TextEncoder().encode('{"blobs":[]}');
    new DataView(message.buffer).setUint32(0, 12, true);
    message.set(header, 4);
    const start = performance.now();
    socket.send(message);
    const acknowledged = await new Promise((resolve) => { socket.onmessage = () => resolve(performance.now()); });
    socket.close();
    return (acknowledged - start) / 1e3;
  };
  const address = `ws://${location.host}/session?page=${name}`;
  if (!shared) return sending(address, bytes).then(resolve, reject);
  const given = `${JSON.stringify(address)}, ${bytes}`;
  const text = `onconnect = async ({ports: [port]}) => port.postMessage(await (${sending})(${given}));`;
  const worker = new SharedWorker(URL.createObjectURL(new Blob([text], {type: "text/javascript"})));
  worker.onerror = () => reject(new Error("the worker could not be started"));
  worker.port.onmessage = ({data}) => resolve(data);
})"""


async def _sink(lab: Lab, *, shared: bool) -> float:
    """Seconds until 64 MiB sent over a bare WebSocket have arrived and were acknowledged: a page's own, of which
    DevTools tells Playwright, or a shared worker's, as the harness's own (js_harness/session.js).
    """
    name = secrets.token_hex(8)
    connected = lab.host.hub.expect(name)
    browser = lab.running_browser
    sending = browser.page.evaluate(_SEND, {"name": name, "bytes": LARGE_BYTES, "shared": shared})

    async def acknowledge() -> None:
        link: Link = await connected
        await link.receive()
        await link.send(b"arrived!")

    seconds, _ = await asyncio.gather(sending, acknowledge())
    return float(seconds)
