"""What pydantic finds wrong with a JSON file, as one sentence: the place, what is allowed there, what was found.

In: validation errors and the data they are about. Out: sentences.
"""

from functools import cache

from pydantic import BaseModel, ValidationError

_UNION = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false"}


def known_keys_only(model: type[BaseModel], data: object) -> object:
    """For `model_validator(mode="before")`: pydantic's own message does not say which keys are allowed."""
    known = _keys(model)
    for key in data if isinstance(data, dict) else ():
        if key not in known:
            raise ValueError(f"unknown key {key!r} (allowed: {', '.join(known)})")
    return data


@cache
def _keys(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items())


def first_fault(error: ValidationError, data: object, whole: str) -> str:
    """The first of pydantic's errors. `whole`: what to call the data itself."""
    first, *others = error.errors(include_url=False)
    loc, message = first["loc"], first["msg"].removeprefix("Value error, ")
    tried = [loc[-1], *(other["loc"][-1] for other in others if other["loc"][:-1] == loc[:-1])] if loc else []
    if len(tried) > 1 and set(tried) <= _UNION.keys():  # a union's error names each type it tried
        loc, message = loc[:-1], "must be " + " or ".join(dict.fromkeys(_UNION[str(name)] for name in tried))
        others = [other for other in others if other["loc"][:-1] != loc]
    told = first["type"] == "missing" or "unknown key" in message
    found = "" if told else f" (found: {first['input']!r:.80})"
    more = f"; {len(others)} more" if others else ""
    return f"{_place(data, loc) or whole}: {message}{found}{more}."


def _place(data: object, loc: tuple[int | str, ...]) -> str:
    """`variants[dp4a_im2col_nchw].passes[matmul].when`: list entries by their id, role or name where they have one."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            data = data[part] if isinstance(data, list) and part < len(data) else None
            label = data.get("id") or data.get("role") or data.get("name") if isinstance(data, dict) else None
            text += f"[{label or part}]"
        else:
            data = data.get(part) if isinstance(data, dict) else None
            text += f".{part}" if text else part
    return text
