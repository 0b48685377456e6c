"""How a caller shows who it is: a token, a certificate, both or neither; and whom it believes to be the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from optsched.errors import UsageError


@dataclass(frozen=True, slots=True)
class Access:
    """Files; they are read for every connection, so that what is renewed is used.

    `tls_ca`: authorities that vouch for the scheduler; without it nothing is encrypted. `tls_certificate` and `tls_key`
    are the caller's own. `token` is one that is in no file. Raises UsageError where what is given does not go together.
    """

    token_file: str | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        if self.token is not None and self.token_file is not None:
            raise UsageError("token, token_file: both are given; allowed: one of them")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise UsageError("tls_certificate, tls_key: one is given alone; allowed: both, or neither")
        if self.tls_certificate is not None and self.tls_ca is None:
            raise UsageError("tls_certificate: given without tls_ca; allowed: with the authorities of the scheduler")

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Return what a connection is encrypted with, None for one that is not. Raises OSError."""
        if self.tls_ca is None:
            return None
        pair: dict[str, bytes] = {}
        if self.tls_certificate is not None and self.tls_key is not None:
            pair = {
                "certificate_chain": Path(self.tls_certificate).read_bytes(),
                "private_key": Path(self.tls_key).read_bytes(),
            }
        return grpc.ssl_channel_credentials(Path(self.tls_ca).read_bytes(), **pair)

    def metadata(self) -> list[tuple[str, str]]:
        """Return what goes with a call: the token, where there is one. Raises OSError."""
        token = self.token if self.token_file is None else Path(self.token_file).read_text().strip()
        return [] if token is None else [("authorization", f"Bearer {token}")]


OPEN = Access()
"""Nothing is shown, and nothing encrypted."""
