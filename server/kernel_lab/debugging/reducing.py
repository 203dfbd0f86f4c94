"""Reduction: a failing case becomes the smallest one found that fails in the same way: shapes first, then values.

In: a case, what is `valid`, and whether a case `fails` (each answer may cost a run in a browser), a budget. Out: a
`Reduction`. Deterministic; pure but for `fails` and the clock.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernel_lab.debugging import shrinking
from kernel_lab.operators.cases import Case

MOST_RUNS = 400
SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The most calls of `fails`, and the most seconds after which none is begun."""

    most_runs: int = MOST_RUNS
    seconds: float = SECONDS


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A smaller case that fails, too: how it differs from the one before, and the runs that were spent up to it."""

    text: str
    case: Case
    runs: int


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """`complete`: no step of shrinking.py makes it smaller still; otherwise the budget was spent."""

    case: Case
    steps: tuple[Step, ...]
    runs: int
    complete: bool


class _Spent(Exception):
    """The budget is."""


def reduce(
    case: Case,
    fails: Callable[[Case], bool],
    valid: shrinking.Valid,
    budget: Budget,
    on_try: Callable[[int, Case], None] = lambda *_: None,
    now: Callable[[], float] = time.monotonic,
) -> Reduction:
    """Shrinks a case that is known to fail. `on_try`: called before each run, with how many there were and the smallest
    case so far.
    """
    search = _Search(case, fails, valid, budget, on_try, now)
    try:
        while search.sweeps(shrinking.size_moves) or search.sweeps(shrinking.value_moves):
            pass
    except _Spent:
        return Reduction(search.case, tuple(search.steps), search.runs, complete=False)
    return Reduction(search.case, tuple(search.steps), search.runs, complete=True)


Moves = Callable[[Case, shrinking.Valid], list[shrinking.Move]]


class _Search:
    """The smallest case so far, and what has been asked."""

    def __init__(
        self, case: Case, fails: Callable[[Case], bool], valid: shrinking.Valid, budget: Budget,
        on_try: Callable[[int, Case], None], now: Callable[[], float],
    ) -> None:  # fmt: skip
        self.case = case
        self.steps: list[Step] = []
        self.runs = 0
        self._fails, self._valid, self._budget, self._on_try, self._now = fails, valid, budget, on_try, now
        self._until = now() + budget.seconds
        self._asked = {identity(case)}

    def sweeps(self, moves: Moves) -> bool:
        """Makes every move as often as the case still fails, until none helps. Whether one did."""
        before = len(self.steps)
        known = -1
        while known < len(self.steps):
            known = len(self.steps)
            for move in moves(self.case, self._valid):
                while self._step(move):
                    pass
        return len(self.steps) > before

    def _step(self, move: shrinking.Move) -> bool:
        for candidate in move(self.case):
            if self._still_fails(candidate):
                self.steps.append(Step(difference(self.case, candidate), candidate, self.runs))
                self.case = candidate
                return True
        return False

    def _still_fails(self, case: Case) -> bool:
        """What has been asked once did not fail, or is what the case was before."""
        key = identity(case)
        if key in self._asked or not self._valid(case):
            return False
        if self.runs >= self._budget.most_runs or self._now() >= self._until:
            raise _Spent
        self._asked.add(key)
        self._on_try(self.runs, self.case)
        self.runs += 1
        return self._fails(case)


def judged_by_reference(case: Case) -> Case:
    """The case without expected values of its own: they say nothing of smaller ones."""
    return shrinking.case_with(case, case.inputs, case.request.attrs)


def identity(case: Case) -> tuple[str, str]:
    """Equal for cases of the same request and the same values."""
    found = hashlib.sha256()
    for role in sorted(case.inputs):
        found.update(np.ascontiguousarray(case.inputs[role]).tobytes())
    return case.request.key, found.hexdigest()


def difference(old: Case, new: Case) -> str:
    """What a step changed, in words: `x [1,8,7,7] -> [1,4,7,7], group 2 -> 1`."""
    parts = []
    for role, array in old.inputs.items():
        if role not in new.inputs:
            parts.append(f"without {role}")
        elif new.inputs[role].shape != array.shape:
            parts.append(f"{role} {_shape(array.shape)} -> {_shape(new.inputs[role].shape)}")
    for name, value in old.request.attrs.items():
        if name not in new.request.attrs:
            parts.append(f"without {name}")
        elif new.request.attrs[name] != value:
            parts.append(f"{name} {value} -> {new.request.attrs[name]}")
    if not parts:
        for role, array in old.inputs.items():
            count = int(np.count_nonzero(array != new.inputs[role]))
            if count:
                parts.append(f"{role}: {count:,} of {array.size:,} values simpler")
    return ", ".join(parts)


def sizes(case: Case) -> str:
    """A request in one line: `x uint8[1,8,7,7], w int8[6,4,3,3], group 2`."""
    request = case.request
    tensors = [f"{role} {request.dtypes[role]}{_shape(request.shapes[role])}" for role in request.shapes]
    return ", ".join([*tensors, *(f"{name} {value}" for name, value in request.attrs.items())])


def elements(case: Case) -> int:
    """Of all inputs together."""
    return sum(array.size for array in case.inputs.values())


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"
