"""What a client is set to; every key is a flag, a variable OPTSCHED_CLIENT_… and a key of the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from optsched.files.fields import Absent, Strict, Targets, Text
from optsched.files.settings import load
from optsched.wire.access import Access

PREFIX = "OPTSCHED_CLIENT_"

Span = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Patience = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


class Settings(Strict):
    """Every key of a client, with what it does and what is allowed."""

    scheduler: Targets = Field(
        "127.0.0.1:7440", description="where the scheduler serves gRPC: host:port, or several with commas between"
    )
    token_file: Absent[Text] = Field(None, description="a file with the token that is shown; none where absent")
    token: Absent[Text] = Field(
        None, description="the token itself, for the environment: others on the machine can read flags"
    )
    tls_ca: Absent[Text] = Field(
        None, description="a PEM file: authorities that vouch for the scheduler; nothing is encrypted where absent"
    )
    tls_certificate: Absent[Text] = Field(None, description="a PEM file with the caller's own certificate")
    tls_key: Absent[Text] = Field(None, description="a PEM file with the key of that certificate")
    timeout_s: Span = Field(30.0, description="seconds that one answer may take, above 0, at most 86,400")
    patience_s: Patience = Field(
        5.0, description="seconds for which a call is made again while nobody answers, 0 to 86,400"
    )

    @property
    def access(self) -> Access:
        """How the client shows who it is. Raises UsageError."""
        return Access(self.token_file, self.tls_ca, self.tls_certificate, self.tls_key, self.token)


def own_file(environment: Mapping[str, str]) -> Path:
    """Return where a user's settings are kept."""
    base = environment.get("XDG_CONFIG_HOME")
    folder = Path(base) if base and os.path.isabs(base) else Path(environment.get("HOME", "~")).expanduser() / ".config"
    return folder / "optsched" / "client.yaml"


def load_settings(flags: Mapping[str, str], environment: Mapping[str, str], config: str | None) -> Settings:
    """Return the settings: flags before environment before a file before defaults.

    The file is `config`, else what OPTSCHED_CLIENT_CONFIG names, else the user's own where there is one. Raises
    InputError with all faults, each at the flag, variable or line that it comes from; UsageError for what does not go
    together.
    """
    own = own_file(environment)
    if config is None and not environment.get(PREFIX + "CONFIG") and own.is_file():
        config = str(own)
    found = load(Settings, PREFIX, flags, environment, config)
    _ = found.access
    return found
