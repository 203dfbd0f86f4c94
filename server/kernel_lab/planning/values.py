"""Refusals that depend on values, decided wherever values are known on the host: a float8 zero point, a y_scale of 0.

In: a Scope and arrays. Out: a sentence or nothing. The page does the same with the rules that a plan carries.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.manifest import ValueCheck
from kernel_lab.planning import expressions
from kernel_lab.planning.scopes import Scope


def active_checks(scope: Scope) -> Iterator[tuple[ValueCheck, str]]:
    """The checks that apply to this request, with their sentences."""
    for check in scope.operator.manifest.lab.valueChecks:
        if check.input in scope.request.dtypes and scope(check.when) is True:
            yield check, expressions.sentence(check.sentence, scope.values)


def refusal(scope: Scope, inputs: Mapping[str, Array]) -> str | None:
    """The sentence that refuses these values, if one does."""
    for check, sentence in active_checks(scope):
        if not _holds(check, inputs[check.input]):
            return sentence
    return None


def _holds(check: ValueCheck, array: Array) -> bool:
    with np.errstate(invalid="ignore"):
        values = array.astype(np.float64)
    if check.rule == "zero":
        return bool(np.all(values == 0))
    return bool(np.all((values != 0) & ~np.isnan(values)))
