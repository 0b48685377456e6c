"""TLS and tokens by the settings, and what is refused because it would stand open to the network."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from optsched.errors import UsageError
from optsched.files.settings import flag_of
from optsched.server.access import Gate, load_tokens
from optsched.server.settings import Settings


def gate_of(settings: Settings) -> Gate:
    """Return who is let in. Raises InputError for a file of tokens that is wrong."""
    tokens = None if settings.tokens is None else load_tokens(settings.tokens)
    return Gate(tokens, float(settings.rate_per_s))


def check_exposure(settings: Settings) -> list[str]:
    """Return what an operator has to know of who can reach the service. Raises UsageError for what is not allowed."""
    beyond = [each for each in (settings.grpc_listen, settings.rest_listen) if each != "off" and not is_loopback(each)]
    secret = settings.tls_certificate is not None
    if (settings.tls_key is None) != (settings.tls_certificate is None):
        raise UsageError("tls_certificate and tls_key: one is given without the other; allowed: both, or none")
    if settings.tls_client_ca is not None and not secret:
        raise UsageError("tls_client_ca: given without tls_certificate and tls_key; allowed: all three")
    notices: list[str] = []
    if settings.tokens is None:
        if beyond and not settings.allow_open:
            raise UsageError(_refusal(beyond[0], "anybody could do everything", "tokens", "allow_open"))
        where = "from anywhere" if beyond else "on this machine (loopback)"
        notices.append(f"open: no tokens are set, so anybody who reaches it {where} may do everything")
    if beyond and not secret:
        if not settings.allow_plaintext:
            raise UsageError(_refusal(beyond[0], "all could be read on the way", "tls_certificate", "allow_plaintext"))
        notices.append("plaintext: TLS is not set, so all that is said can be read on the way")
    return notices


def _refusal(address: str, why: str, key: str, switch: str) -> str:
    allowed = f"{flag_of(key)} FILE, a loopback address, or {flag_of(switch)} true"
    return f"{address} can be reached from elsewhere, where {why}; allowed: {allowed}"


def is_loopback(listen: str) -> bool:
    """Return whether an address (host:port) is reached from its own machine only."""
    host = listen.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def add_port(server: grpc.aio.Server, settings: Settings) -> int:
    """Listen for gRPC, with TLS where that is set, and return the port. Raises UsageError for files that do not do."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return _bound(lambda: server.add_insecure_port(settings.grpc_listen), settings.grpc_listen)
    ca = None if settings.tls_client_ca is None else _read(settings.tls_client_ca, "tls_client_ca")
    credentials = grpc.ssl_server_credentials(
        [(_read(settings.tls_key, "tls_key"), _read(settings.tls_certificate, "tls_certificate"))],
        root_certificates=ca,
        require_client_auth=ca is not None,
    )
    return _bound(lambda: server.add_secure_port(settings.grpc_listen, credentials), settings.grpc_listen)


def _bound(bind: Callable[[], int], address: str) -> int:
    try:
        return bind()
    except RuntimeError:
        raise UsageError(f"grpc_listen: {address} cannot be listened on: it is taken, or not of this machine") from None


def listen_for_rest(address: str) -> socket.socket:
    """Return a socket that listens. Raises UsageError."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family, backlog=2048)
    except OSError as error:
        raise UsageError(f"rest_listen: {address} cannot be listened on: {error.strerror or error}") from None


def tls_of_rest(settings: Settings) -> dict[str, Any]:
    """Return the settings of TLS as uvicorn has them. Raises UsageError for files that do not do."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key)
        if settings.tls_client_ca is not None:
            context.load_verify_locations(settings.tls_client_ca)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"tls_certificate, tls_key or tls_client_ca cannot be used: {error}") from None
    found: dict[str, Any] = {"ssl_certfile": settings.tls_certificate, "ssl_keyfile": settings.tls_key}
    if settings.tls_client_ca is not None:
        found |= {"ssl_ca_certs": settings.tls_client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return found


def _read(path: str, key: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{key}: {path} cannot be read: {error.strerror or error}") from None
