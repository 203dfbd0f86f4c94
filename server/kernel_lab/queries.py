"""Queries: `OPERATOR:CASE:VARIANT`, the one string that names things in tests, URLs, results and on the command line.

`*` matches anything within a part, missing parts match all, and an operator may be given by its last name
(`QLinearConv` for `com.microsoft.QLinearConv`).
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import quote

from kernel_lab.errors import LabError


@dataclass(frozen=True, slots=True)
class Query:
    """One parsed query; each part is a pattern."""

    operator: str = "*"
    case: str = "*"
    variant: str = "*"

    def matches(self, operator: str, case: str | None = None, variant: str | None = None) -> bool:
        """Whether the names given so far fit; a name not given (None) fits."""
        return (
            matches_operator(self.operator, operator)
            and (case is None or fnmatchcase(case, self.case))
            and (variant is None or fnmatchcase(variant, self.variant))
        )

    def __str__(self) -> str:
        parts = [self.operator, self.case, self.variant]
        while len(parts) > 1 and parts[-1] == "*":
            parts.pop()
        return ":".join(parts)


def matches_operator(pattern: str, operator: str) -> bool:
    """`ai.onnx.ConvInteger` fits itself, `ConvInteger` and any pattern with `*`."""
    return fnmatchcase(operator, pattern) or fnmatchcase(operator.rpartition(".")[2], pattern)


def parse(text: str) -> Query:
    """Reads a query; raises LabError on more than three parts."""
    parts = text.split(":")
    if len(parts) > 3:
        raise LabError(f"query {text!r}: got {len(parts)} parts, allowed are at most three: OPERATOR:CASE:VARIANT.")
    return Query(*(part or "*" for part in parts))


def name_of(text: str) -> str:
    """A foreign name (a folder, an ONNX node) as a case name: letters, digits, `_`, `-`, `.`; all else becomes `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text) or "_"


def file_name_of(query: str) -> str:
    """A query as a file name that every file system takes: `:` and its like are escaped."""
    return quote(query, safe="").replace("%3A", "__").replace("%2A", "_")
