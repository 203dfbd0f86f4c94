"""The desk: answers what the debug page asks, and notices when an operator's files have changed.

In: operators, questions of the page as JSON. Out: JSON, or messages of the wire format. Reads files, changes none.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kernel_lab import line
from kernel_lab.browsing import declared, masks, profiles
from kernel_lab.browsing.masks import Mask
from kernel_lab.debugging import probing, saving, specimen, writers
from kernel_lab.debugging.instrument import BUFFER
from kernel_lab.debugging.questions import ElementAsked, InspectAsked, MaskAsked, SaveAsked, SpecimenAsked, read
from kernel_lab.debugging.records import RECORD_WORDS, Choice
from kernel_lab.debugging.standalone import Sighting
from kernel_lab.errors import LabError
from kernel_lab.judging.failure_report import repeat_command
from kernel_lab.operators import operator as operators
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.manifest import Variant
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import facts as device_facts
from kernel_lab.planning import plans, selection
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Scope
from kernel_lab.queries import parse
from kernel_lab.serving import frames, wire


class Desk:
    """Holds the operators as their files were when last looked at."""

    def __init__(self, there: Mapping[str, Operator]) -> None:
        self._operators = dict(there)

    def catalogue(self) -> dict[str, Any]:
        """Every operator with its variants and cases; what may be masked, beside what the page's adapter offers."""
        manifests = [operator.manifest for operator in self._operators.values()]
        declared_masks = {name: profiles.mask_of(name) for name in declared.load()}
        return {
            "profiles": [{"name": n, "masks": " ".join(masks.options(m))} for n, m in declared_masks.items()],
            "limits": list(selection.limits_of(manifests)),
            "features": list(selection.features_of(manifests)),
            "operators": [
                {
                    "id": operator.id,
                    "variants": [{"id": v.id, "description": v.description} for v in operator.manifest.variants],
                    "cases": [{"name": case.name, "why": case.why} for case in operator.cases],
                }
                for operator in self._operators.values()
            ],
        }

    def specimen(self, body: Mapping[str, Any]) -> bytes:
        """The answer to POST /debug/specimen."""
        asked = read(SpecimenAsked, body)
        operator, case, variant = self._named(asked.query)
        header, blobs = specimen.specimen(operator, case, _facts(asked), variant)
        return wire.encode({**header, "stamp": operator.digest}, blobs)

    def element(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to POST /debug/element."""
        asked = read(ElementAsked, body)
        operator, case, _ = self._named(asked.query)
        tell = specimen.element if asked.of == "output" else specimen.value
        return tell(operator, case, asked.output, tuple(asked.index))

    def save(self, body: Mapping[str, Any]) -> str:
        """The answer to POST /debug/save: the case on that device as a page of its own."""
        asked = read(SaveAsked, body)
        operator, case, name = self._named(asked.query)
        facts = _facts(asked)
        plan, variant = saving.planned(operator, case, facts, name)
        query = f"{case.query}:{variant}"
        seen = Sighting(
            query=query,
            summary=asked.summary,
            browser=_browser(asked.user_agent),
            adapter=facts.description,
            why=case.why,
            user_agent=asked.user_agent,
            expected_from=line.expected_of(operator, case)[1],
            repeat=repeat_command(query, ("kernel-lab", "run", *_options(asked.mask))),
        )
        return saving.page_of(operator, case, plan, seen)

    def inspect(self, body: Mapping[str, Any]) -> bytes:
        """The answer to POST /debug/inspect, which a page asks twice: for a plan, and for what its words mean."""
        asked = read(InspectAsked, body)
        operator, case, name = self._named(asked.query)
        if name is None:
            raise LabError("a debug run needs a variant: OPERATOR:CASE:VARIANT.")
        scope, variant, facts = _scope(operator, case), operator.variant(name), _facts(asked)
        plan, tell = _debug_run(asked, scope, variant, facts)
        if asked.words is None:
            records = {"buffer": BUFFER, "record_words": RECORD_WORDS}
            texts = frames.wgsl_texts(plan, set())
            return wire.encode({"plan": frames.plan_header(plan), "wgsl": texts, "read": records}, [])
        try:
            words = np.frombuffer(bytes.fromhex(asked.words), np.uint32)
            return wire.encode({"told": tell(words)}, [])
        except (ValueError, IndexError):
            raise LabError("words: these are not the words of that debug run.") from None

    def stamp(self, name: str) -> dict[str, str]:
        """The digest of an operator's files as they are now; one that has changed is read anew."""
        operator = operators.among(self._operators, name)
        if replace(operator).digest != operator.digest:  # a copy remembers nothing
            self._operators[operator.id] = operator = operators.afresh(operator)
        return {"stamp": operator.digest}

    def _named(self, query: str) -> tuple[Operator, Case, str | None]:
        asked = parse(query)
        operator = operators.among(self._operators, asked.operator)
        case = next((case for case in operator.cases if case.name == asked.case), None)
        if case is None:
            raise LabError(f"{operator.id} has no case {asked.case!r}: `kernel-lab list {operator.id}` shows them.")
        return operator, case, None if asked.variant == "*" else asked.variant


def _scope(operator: Operator, case: Case) -> Scope:
    scope = line.check(operator, case)
    if not isinstance(scope, Scope):
        raise LabError(f"{case.query} is refused: {scope.sentence}")
    return scope


def _browser(user_agent: str) -> str:
    """What of a user agent people know a browser by."""
    found = re.search(r"(Chrome|HeadlessChrome|Firefox|Version)/[\d.]+", user_agent)
    return found[0].replace("/", " ") if found else user_agent or "unnamed browser"


def _debug_run(
    asked: InspectAsked, scope: Scope, variant: Variant, facts: DeviceFacts
) -> tuple[Plan, Callable[[Array], dict[str, Any]]]:
    """The plan that finds what is asked for, and what its words mean, as JSON."""
    if asked.workgroup is not None:
        choice = Choice("workgroup", asked.workgroup, asked.local_index)
        plan, probes_in = probing.probes_of(scope, variant, facts, choice, asked.run_pass)

        def probes(words: Array) -> dict[str, Any]:
            found = probes_in(words)
            silent = [{"name": site.name, **site.json} for site in found.silent]
            return {"probes": [probed.json for probed in found.values], "lost": found.lost, "silent": silent}

        return plan, probes
    whole = plans.plan_of(scope, variant, facts)
    plan, writers_in = writers.writers_of(whole, asked.buffer, tuple(asked.index))

    def wrote(words: Array) -> dict[str, Any]:
        found, rows = writers_in(words), []
        for writer in found.found:
            name = writer.site.label.rpartition(":")[2]
            rows.append({**writer.json, "has_probes": probing.has_probes(scope, variant, facts, name)})
        return {"writers": rows, "elements_watched": found.shared, "lost": found.lost}

    return plan, wrote


def _facts(asked: SpecimenAsked) -> DeviceFacts:
    facts = asked.facts.device
    if facts is None:
        raise LabError(f"no adapter: {asked.facts.reason or 'this browser offers none'}.")
    profile = asked.mask.profile
    if profile and profile not in declared.load():
        known = ", ".join(declared.load()) or "none"
        raise LabError(f"profile {profile!r} is not declared in {declared.FILE} (declared: {known}).")
    mask = masks.joined(profiles.mask_of(profile), _mask(asked.mask))
    return device_facts.masked(facts, mask.hidden, mask.limits, mask.subgroups, mask.emulate_matrices)


def _mask(asked: MaskAsked) -> Mask:
    """What is asked for beside the profile's."""
    return masks.parse(asked.mask, asked.limit, asked.subgroups or None, emulate_matrices=asked.emulate_matrices)


def _options(asked: MaskAsked) -> list[str]:
    """The words of `kernel-lab run` that hide the same."""
    return [*(["--browser", asked.profile] if asked.profile else []), *masks.options(_mask(asked))]
