"""What the debug page may ask of the desk, as JSON, and whether it is that.

In: bodies of requests. Out: forms. LabError names the first fault.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kernel_lab.errors import LabError
from kernel_lab.serving.planner import PageFacts


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MaskAsked(_Asked):
    """What is hidden of the adapter, each as the command line's option of that name takes it; `profile`: a declared
    one, whose own masks are hidden as well.
    """

    profile: str = ""
    mask: list[str] = []
    limit: list[str] = []
    subgroups: str = ""
    emulate_matrices: bool = False


class SpecimenAsked(_Asked):
    """A case, maybe on a named variant, on an adapter that is poorer by `mask`."""

    query: str
    facts: PageFacts
    mask: MaskAsked = MaskAsked()


class ElementAsked(_Asked):
    """One element of a case's output; or, with `of` "value", of what the reference has on its way there."""

    query: str
    of: Literal["output", "value"] = "output"
    output: str
    index: list[int]


class SaveAsked(SpecimenAsked):
    """What the page saw: `summary`: its verdict in a line."""

    summary: str
    user_agent: str = ""


class InspectAsked(SpecimenAsked):
    """Who wrote an element of a buffer; or, with `workgroup`, what the probes of that invocation of a pass saw.
    `words`: what the debug run left in its buffer, in hex; without them the answer is the plan of that run.
    """

    buffer: str = ""
    index: list[int] = []
    run_pass: str | None = None
    workgroup: tuple[int, int, int] | None = None
    local_index: int = 0
    words: str | None = None


Form = TypeVar("Form", bound=_Asked)


def read(form: type[Form], body: Mapping[str, Any]) -> Form:
    """The body as that form."""
    try:
        return form.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise LabError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
