"""Which mutants to run: drawn by a seed, until enough of each template and each kind, and enough in all, compile.

In: mutants by fault, what compiled so far. Out: the next mutant. Pure: the same seed and the same answers give the same
mutants, and a new template does not change what is drawn from the others.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kernel_lab.mutating.faults import Fault
from kernel_lab.mutating.survey import Mutant


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many compiled mutants at least: in all, of each template, of each kind."""

    count: int
    per_template: int
    per_kind: int


@dataclass(slots=True, eq=False)
class Draw:
    """Hands out mutants. A fault that several variants have is drawn in another one only after all other faults of its
    template and kind were drawn.
    """

    wanted: Wanted
    stacks: dict[tuple[str, str], list[Mutant]]
    templates: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    total: int = 0
    drawn: Counter[tuple[str, str]] = field(default_factory=Counter)

    def next(self) -> Mutant | None:
        """A mutant of the template and kind that lack most; None when nothing is lacking or nothing is left."""
        open_stacks = [key for key, stack in self.stacks.items() if stack]
        if not open_stacks:
            return None
        key = min(open_stacks, key=lambda key: (-self._lacking(key), self.drawn[key], key))
        if self._lacking(key) == 0 and self.total >= self.wanted.count:
            return None
        self.drawn[key] += 1
        return self.stacks[key].pop()

    def compiled(self, fault: Fault) -> None:
        """Counts a mutant that compiled."""
        self.total += 1
        self.templates[fault.template] += 1
        self.kinds[fault.kind] += 1

    def expected(self) -> int:
        """How many will compile in all if everything does."""
        same = replace(
            self, stacks={key: list(stack) for key, stack in self.stacks.items()},
            templates=Counter(self.templates), kinds=Counter(self.kinds), drawn=Counter(self.drawn),
        )  # fmt: skip
        while (mutant := same.next()) is not None:
            same.compiled(mutant.fault)
        return same.total

    def _lacking(self, key: tuple[str, str]) -> int:
        template, kind = key
        too_few = self.templates[template] < self.wanted.per_template
        return too_few + (self.kinds[kind] < self.wanted.per_kind)


def draw(mutants: Mapping[Fault, tuple[Mutant, ...]], wanted: Wanted, seed: int) -> Draw:
    """All mutants, shuffled by the seed within their template and kind."""
    groups: dict[tuple[str, str], list[Fault]] = {}
    for fault in sorted(mutants):
        groups.setdefault((fault.template, fault.kind), []).append(fault)
    return Draw(wanted, {key: _stack(key, faults, mutants, seed) for key, faults in sorted(groups.items())})


def _stack(
    key: tuple[str, str], faults: list[Fault], mutants: Mapping[Fault, tuple[Mutant, ...]], seed: int
) -> list[Mutant]:
    """The last one is drawn first."""
    dice = random.Random(f"{seed}:{key[0]}:{key[1]}")
    rounds: list[list[Mutant]] = []
    for fault in faults:
        hosts = list(mutants[fault])
        dice.shuffle(hosts)
        for number, mutant in enumerate(hosts):
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(mutant)
    for same in rounds:
        dice.shuffle(same)
    return [mutant for same in reversed(rounds) for mutant in reversed(same)]
