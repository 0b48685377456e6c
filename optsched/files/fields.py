"""The kinds of values that the schema has, each with its bounds and a sentence that says what is allowed.

The sentence is what a user sees after "allowed:". Numbers are strict: "8" is not 8, 2.5 not whole, true not 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    T = TypeVar("T")
    Absent: TypeAlias = T | None
else:

    class Absent:
        """A value that may be left out, and is then None, but that may not be given as null."""

        def __class_getitem__(cls, item: object) -> object:
            return item


class Strict(BaseModel):
    """Base of every model of the schema: no conversions, no unknown keys."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


MAX_GPUS = 1_000_000
MAX_NODE_GPUS = 1024
MAX_PRIORITY = 1_000_000_000
MAX_INSTANT = 1e12
MAX_SECONDS = 1e10

_CHAR = r"[A-Za-z0-9._:@+-]"
_PART = r"(?:[A-Za-z0-9_:@+-]{c}*|\.(?:[A-Za-z0-9_:@+-]{c}*)?|\.\.{c}+)?".replace("{c}", _CHAR)
ID_PATTERN = rf"^[A-Za-z0-9]{_CHAR}*(?:/{_PART})*$"
ID_RULE = (
    "text of letters (a-z, A-Z), digits and . _ - / : @ +, 1 to 253 characters, the first a letter or digit, "
    "no '..' between slashes"
)
RFC3339 = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$"
_PRINTABLE = r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$"

Id = Annotated[str, Field(max_length=253, pattern=ID_PATTERN, description=ID_RULE)]
Text = Annotated[
    str,
    Field(
        max_length=32768, pattern=_PRINTABLE, description="text without control characters, at most 32,768 characters"
    ),
]
_HOST = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}"
Targets = Annotated[
    str,
    Field(pattern=rf"^{_HOST}(,{_HOST})*$", description="host:port, or several with commas between"),
]
Gpus = Annotated[
    int,
    Field(ge=1, le=MAX_GPUS, description="a whole number from 1 to 1,000,000 (a job needs at least 1 GPU)"),
]
GpuAmount = Annotated[int, Field(ge=0, le=1_000_000_000, description="a whole number of GPUs from 0 to 1,000,000,000")]
NodeGpus = Annotated[int, Field(ge=0, le=MAX_NODE_GPUS, description="a whole number of GPUs from 0 to 1,024")]
GpuIndex = Annotated[int, Field(ge=0, lt=MAX_NODE_GPUS, description="a GPU index from 0 to 1,023")]
Count = Annotated[int, Field(ge=0, le=1_000_000, description="a whole number from 0 to 1,000,000")]
Priority = Annotated[
    Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | Id,
    Field(description="a priority class of the profile, or a whole number from -1,000,000,000 to 1,000,000,000"),
]
_Number = Annotated[int, Field(ge=-MAX_INSTANT, le=MAX_INSTANT)]
_Fraction = Annotated[float, Field(ge=-MAX_INSTANT, le=MAX_INSTANT, allow_inf_nan=False)]
Instant = Annotated[
    _Number | _Fraction | Annotated[str, Field(pattern=RFC3339)],
    Field(description="an instant: seconds from -1e12 to 1e12, or RFC 3339 such as '2026-03-01T08:00:00Z'"),
]
Seconds = Annotated[
    float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False, description="a number of seconds from 0 to 1e10")
]
SecondsAboveZero = Annotated[
    float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False, description="a number of seconds above 0, at most 1e10")
]
RuntimeSeconds = Annotated[
    float,
    Field(
        gt=0,
        le=MAX_SECONDS,
        allow_inf_nan=False,
        description="a number of seconds above 0, at most 1e10 (leave it out where it is not known)",
    ),
]
Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, description="a number from 0 to 1,000,000")]
Cpus = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False, description="a number of CPUs from 0 to 1e9")]
MemoryGb = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False, description="a number of GB from 0 to 1e12")]
Speed = Annotated[
    float,
    Field(gt=0, le=100, allow_inf_nan=False, description="a relative speed above 0, at most 100 (1 is full speed)"),
]
Price = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False, description="a number from 0 to 1e9")]
Flag = Annotated[bool, Field(description="true or false")]
