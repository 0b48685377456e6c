"""How a caller shows who it is: a token, a certificate, both or neither; and whom it believes to be the scheduler."""

from __future__ import annotations

import re
import ssl
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
        """Return what a connection is encrypted with, None for one that is not. Raises OSError or UsageError."""
        if self.tls_ca is None:
            return None
        pair: dict[str, bytes] = {}
        if self.tls_certificate is not None and self.tls_key is not None:
            pair = {
                "certificate_chain": Path(self.tls_certificate).read_bytes(),
                "private_key": Path(self.tls_key).read_bytes(),
            }
            _check_pair(self.tls_certificate, self.tls_key)
        return grpc.ssl_channel_credentials(authorities(self.tls_ca, "tls_ca"), **pair)

    def metadata(self) -> list[tuple[str, str]]:
        """Return what goes with a call: the token, where there is one. Raises OSError or UsageError."""
        if self.token_file is not None:
            return bearer(token_in(self.token_file, "token_file"))
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise UsageError(f"token: given no token; allowed: {_TOKENS}")
        return [] if self.token is None else bearer(self.token)


_TOKEN = re.compile("[!-~]+")
_TOKENS = "one line of ASCII, without blanks"


def bearer(token: str) -> list[tuple[str, str]]:
    """Return a token as the metadata of a call."""
    return [("authorization", f"Bearer {token}")]


def token_in(path: str, option: str) -> str:
    """Return the token of a file that `option` names. Raises OSError, and UsageError where it holds none."""
    token = Path(path).read_bytes().decode("utf-8", errors="replace").strip()
    if not _TOKEN.fullmatch(token):
        raise UsageError(f"{option}: {path} holds no token; allowed: a file with {_TOKENS}")
    return token


def authorities(path: str, option: str) -> bytes:
    """Return the PEM file that `option` names. Raises OSError, and UsageError where it holds no certificate."""
    data = Path(path).read_bytes()
    try:
        # What gRPC makes of a file without one is a connection that fails, with nothing said of the file.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        raise UsageError(f"{option}: {path} holds no certificate; allowed: a PEM file with those to trust") from None
    return data


def _check_pair(certificate: str, key: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        raise UsageError(
            f"tls_certificate, tls_key: {certificate} and {key} cannot be used ({error.reason or 'no PEM'}); "
            "allowed: PEM files of a certificate and of its key, which is not encrypted"
        ) from None


OPEN = Access()
"""Nothing is shown, and nothing encrypted."""
