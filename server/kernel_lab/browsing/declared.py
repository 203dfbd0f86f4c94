"""Profiles that a project declares itself: kernel-lab.toml in the working folder, or what $KERNEL_LAB_PROFILES names.

In: that file. Out: `Declared`s by name. Each starts from another profile and says what differs, flags with a reason:

    [profiles.next]
    browser = "npm-153-swiftshader"
    mask = ["shader-f16"]                  # limits, subgroups, emulate_matrices: as the options of their names
    templates = "drills/tail"              # these stand in for the operators' own of the same names, in it alone
    flags = [{ flag = "--enable-dawn-features=dump_shaders", why = "to read what Tint makes of them" }]
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from kernel_lab.errors import LabError

FILE = "kernel-lab.toml"
VARIABLE = "KERNEL_LAB_PROFILES"


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_.-]*", text):
        raise ValueError("a profile's name is small letters, digits, `-`, `_` and `.`, a letter first")
    return text


class DeclaredFlag(BaseModel):
    """A flag of Chromium and why it is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    flag: str
    why: str = Field(min_length=1)


class Declared(BaseModel):
    """One profile. `browser`: the profile it starts from; `templates`: a folder, relative to the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    browser: str
    flags: tuple[DeclaredFlag, ...] = ()
    mask: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    subgroups: str | None = None
    emulate_matrices: bool = False
    retry_lost: bool = False
    templates: Path | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    profiles: dict[Annotated[str, AfterValidator(_name)], Declared]


def load() -> dict[str, Declared]:
    """What the file declares, by name; nothing if there is no file. LabError names file and place of a fault."""
    stated = os.environ.get(VARIABLE)
    path = Path(stated or FILE)
    if not stated and not path.is_file():
        return {}
    try:
        found = _File.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise LabError(f"{path}, which {VARIABLE} names, cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: is no TOML: {error}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise LabError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    return {name: _placed(name, declared, path) for name, declared in found.profiles.items()}


def _placed(name: str, declared: Declared, path: Path) -> Declared:
    if declared.templates is None:
        return declared
    folder = (path.parent / declared.templates).absolute()
    if not folder.is_dir():
        raise LabError(f"{path}: profiles.{name}.templates: {folder} is no folder.")
    return declared.model_copy(update={"templates": folder})
