"""The desk: answers what the debug page asks, and notices when an operator's files have changed.

In: operators, questions of the page as JSON. Out: JSON, or messages of the wire format. Reads files, changes none.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kernel_lab.debugging import specimen
from kernel_lab.errors import LabError
from kernel_lab.operators import operator as operators
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import facts as device_facts
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.queries import parse
from kernel_lab.serving import wire
from kernel_lab.serving.planner import PageFacts


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SpecimenAsked(_Asked):
    """A case, maybe on a named variant; `mask`: features that are hidden from planning."""

    query: str
    facts: PageFacts
    mask: list[str] = []


class ElementAsked(_Asked):
    """One element of a case's output."""

    query: str
    output: str
    index: list[int]


Form = TypeVar("Form", bound=_Asked)


class Desk:
    """Holds the operators as their files were when last looked at."""

    def __init__(self, there: Mapping[str, Operator]) -> None:
        self._operators = dict(there)

    def catalogue(self) -> dict[str, Any]:
        """Every operator with its variants and cases."""
        return {
            "operators": [
                {
                    "id": operator.id,
                    "variants": [{"id": v.id, "description": v.description} for v in operator.manifest.variants],
                    "cases": [{"name": case.name, "why": case.why} for case in operator.cases],
                }
                for operator in self._operators.values()
            ]
        }

    def specimen(self, body: Mapping[str, Any]) -> bytes:
        """The answer to POST /debug/specimen."""
        asked = _read(SpecimenAsked, body)
        operator, case, variant = self._named(asked.query)
        header, blobs = specimen.specimen(operator, case, _facts(asked), variant)
        return wire.encode({**header, "stamp": operator.digest}, blobs)

    def element(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to POST /debug/element."""
        asked = _read(ElementAsked, body)
        operator, case, _ = self._named(asked.query)
        return specimen.element(operator, case, asked.output, tuple(asked.index))

    def stamp(self, name: str) -> dict[str, str]:
        """The digest of an operator's files as they are now; one that has changed is read anew."""
        operator = operators.among(self._operators, name)
        fresh = operators.afresh(operator)
        if fresh.digest != operator.digest:
            self._operators[operator.id] = operator = fresh
        return {"stamp": operator.digest}

    def _named(self, query: str) -> tuple[Operator, Case, str | None]:
        asked = parse(query)
        operator = operators.among(self._operators, asked.operator)
        case = next((case for case in operator.cases if case.name == asked.case), None)
        if case is None:
            raise LabError(f"{operator.id} has no case {asked.case!r}: `kernel-lab list {operator.id}` shows them.")
        return operator, case, None if asked.variant == "*" else asked.variant


def _facts(asked: SpecimenAsked) -> DeviceFacts:
    facts = asked.facts.device
    if facts is None:
        raise LabError(f"no adapter: {asked.facts.reason or 'this browser offers none'}.")
    return device_facts.masked(facts, tuple(asked.mask), {})


def _read(form: type[Form], body: Mapping[str, Any]) -> Form:
    try:
        return form.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise LabError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
