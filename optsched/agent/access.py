"""How an agent shows who it is: a token, a certificate, both or neither; and whom it believes to be the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from optsched.errors import UsageError


@dataclass(frozen=True, slots=True)
class Access:
    """Files; they are read for every connection, so that what is renewed is used.

    `tls_ca`: authorities that vouch for the scheduler; without it nothing is encrypted. `tls_certificate` and `tls_key`
    are the agent's own. Raises UsageError where only one of them is given, or they without `tls_ca`.
    """

    token_file: str | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise UsageError("tls_certificate, tls_key: one is given alone; allowed: both, or neither")
        if self.tls_certificate is not None and self.tls_ca is None:
            raise UsageError("tls_certificate: given without tls_ca; allowed: with the authorities of the scheduler")

    def channel(self, target: str, options: Sequence[tuple[str, int]]) -> grpc.aio.Channel:
        """Return a channel to a scheduler. Raises OSError for a file that cannot be read."""
        if self.tls_ca is None:
            return grpc.aio.insecure_channel(target, options=options)
        pair: dict[str, bytes] = {}
        if self.tls_certificate is not None and self.tls_key is not None:
            pair = {
                "certificate_chain": Path(self.tls_certificate).read_bytes(),
                "private_key": Path(self.tls_key).read_bytes(),
            }
        credentials = grpc.ssl_channel_credentials(Path(self.tls_ca).read_bytes(), **pair)
        return grpc.aio.secure_channel(target, credentials, options=options)

    def metadata(self) -> list[tuple[str, str]]:
        """Return what goes with a call: the token, where there is one. Raises OSError."""
        if self.token_file is None:
            return []
        return [("authorization", f"Bearer {Path(self.token_file).read_text().strip()}")]


OPEN = Access()
"""Nothing is shown, and nothing encrypted."""
