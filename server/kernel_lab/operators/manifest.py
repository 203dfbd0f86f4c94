"""manifest.json as frozen values: an operator's contract, its checks and its variants.

In: the JSON object, already expanded by `families.expand`. Out: a `Manifest`. Never evaluates an expression.

The format is the Hub's webgpu-kernels manifest (arrays of inputs, `derive`, `bindingSets`, `variants`); what kernel-lab
adds stands under `x-lab`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from kernel_lab.errors import LabError
from kernel_lab.operators.dtypes import Packing
from kernel_lab.operators.parsing import first_fault, known_keys_only

Expr = str | int | float | bool
"""An expression's text, or a literal that stands for itself."""


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


Conditions = Annotated[list[Expr], BeforeValidator(_as_list)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: object) -> object:
        return known_keys_only(cls, data)


class Input(_Model):
    role: str
    dtype: str
    description: str = ""
    optional: bool = False
    rank: Expr | None = None


class Output(_Model):
    role: str
    dtype: str
    rank: Expr
    shape: Expr | list[Expr]
    description: str = ""


class StructField(_Model):
    name: str
    type: Literal["u32", "i32", "f32"]
    value: Expr
    default: Expr | None = None


class Struct(_Model):
    name: str
    fields: list[StructField]


class Buffer(_Model):
    type: Literal["read-only-storage", "storage", "uniform"]


class BindingLab(_Model):
    absent: Literal["zero"] | None = None


class Binding(_Model):
    """One binding; its index is its place in the list. `arg`: the input or output bound; without it, `name` is an
    intermediate.
    """

    name: str
    arg: str | None = None
    semantic: str | None = None
    buffer: Buffer
    elementType: str = "u32"
    length: Expr | None = None
    struct: Struct | None = None
    lab: BindingLab = Field(default=BindingLab(), alias="x-lab")


class Dispatch(_Model):
    """`threads` (with `workgroupSize`) or `workgroups`: a count folded over x and y; or `x`, `y`, `z` as they stand."""

    threads: Expr | None = None
    workgroupSize: Expr | None = None
    workgroups: Expr | None = None
    x: Expr | None = None
    y: Expr | None = None
    z: Expr | None = None


class Source(_Model):
    shader: str
    inputs: dict[str, Any] = {}


class Pass(_Model):
    id: str
    name: str = ""
    shader: str | None = None
    source: Source | None = None
    entryPoint: str = "main"
    bindings: list[Binding]
    constants: dict[str, Expr] = {}
    dispatch: Dispatch

    @property
    def template(self) -> str:
        return self.shader or (self.source.shader if self.source else "")


UNREAD = "unread"
"""Padding of which no pass makes use."""


class Holds(_Model):
    """Which `value` of the reference's an intermediate holds, and where each of its elements lies.

    `axes`: for each axis of the buffer those of the value that lie along it, the outermost first: "g m". What stands
    twice is split into tiles: the first counts them, the second counts within one. Without `axes` the two have the same
    shape. `padding`: what lies where no element of the value does: a number, the one element of an input (0 where that
    is absent), or "unread", which is not compared. Without it there must be none.
    """

    value: str
    axes: list[str] | None = None
    padding: int | str | None = None


class IntermediateLab(_Model):
    fill: Literal["poison", "zero"] = "poison"
    holds: Holds | None = None


class Intermediate(_Model):
    id: str
    dtype: str
    shape: Expr | list[Expr]
    lab: IntermediateLab = Field(default=IntermediateLab(), alias="x-lab")


class MatrixConfig(_Model):
    componentType: str
    resultComponentType: str | None = None
    M: int | None = None
    N: int | None = None
    K: int | None = None


class RequiresLab(_Model):
    """`subgroupSizes`: every subgroup has the same of these sizes; `fixedSubgroupSize`: every one has the same."""

    wgslLanguageFeatures: list[str] = []
    limits: dict[str, Expr] = {}
    subgroupSizes: list[int] = []
    fixedSubgroupSize: bool = False


class Requires(_Model):
    features: list[str] = []
    subgroupMatrixConfigs: list[MatrixConfig] = []
    lab: RequiresLab = Field(default=RequiresLab(), alias="x-lab")


class VariantLab(_Model):
    """`packing`: per role, or "*" for all; the Hub's own loader knows only "word".

    `emulation`: the variant's templates have a second body for subgroup matrices, in plain WGSL (`matrix.emulated`). It
    is never selected. "on_request": it runs where a profile asks for it. "automatic": also wherever the variant is
    forced and the adapter lacks the matrices, because no known adapter has them.
    """

    packing: dict[str, Packing] = {}
    emulation: Literal["on_request", "automatic"] | None = None
    note: str = ""


class Variant(_Model):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_]*$")]
    name: str = ""
    description: str = ""
    default: bool = False
    priority: int = 0
    when: Conditions = []
    demoteWhen: Conditions = []
    requires: Requires = Requires()
    tunables: dict[str, Expr] = {}
    derive: dict[str, Expr] = {}
    constants: dict[str, Expr] = {}
    intermediates: list[Intermediate] = []
    passes: list[Pass]
    lab: VariantLab = Field(default=VariantLab(), alias="x-lab")

    def packing_of(self, role: str) -> Packing:
        """How that input or output is packed: as stated, else as "*" says, else one element per word."""
        return self.lab.packing.get(role, self.lab.packing.get("*", "word"))

    def __hash__(self) -> int:
        """Its identity: a variant is read once, and what follows from it alone is remembered by it."""
        return id(self)


class Check(_Model):
    require: Expr
    sentence: str = Field(alias="else")


class Checks(_Model):
    """Two rounds: `structure` before `derive`, so that bad pads or group 0 never reach arithmetic; `geometry` after."""

    structure: list[Check] = []
    geometry: list[Check] = []


class ValueCheck(_Model):
    """A refusal that depends on values; decided wherever they are known on the host."""

    input: str
    when: Expr = True
    rule: Literal["zero", "not_zero_or_nan"]
    sentence: str = Field(alias="else")


class OpsetRow(_Model):
    """What one version of the operator allows. The row with the greatest version up to the requested one applies."""

    domain: str
    version: int
    attributes: list[str]
    types: dict[str, list[str]]


class ManifestLab(_Model):
    attributeTypes: dict[str, Literal["int", "ints", "float", "string"]] = {}
    opsets: list[OpsetRow] = []
    checks: Checks = Checks()
    valueChecks: list[ValueCheck] = []
    outputDtypes: dict[str, Expr] = {}


class Manifest(_Model):
    domain: str
    name: str
    sinceVersion: int
    description: str = ""
    inputs: list[Input]
    outputs: list[Output]
    attributes: dict[str, Any] = {}
    typeConstraints: dict[str, list[str]]
    tunables: dict[str, Any] = {}
    tunableDescriptions: dict[str, str] = {}
    derive: dict[str, Expr] = {}
    constants: dict[str, Expr] = {}
    variants: list[Variant]
    lab: ManifestLab = Field(default=ManifestLab(), alias="x-lab")

    @property
    def id(self) -> str:
        return f"{self.domain}.{self.name}"


def parse(data: dict[str, Any], where: str) -> Manifest:
    """A manifest from its expanded JSON object; LabError names file, place, what was found and what is allowed."""
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        raise LabError(f"{where}: {first_fault(error, data, 'manifest')}") from None
