"""Certificates for tests of TLS."""

from __future__ import annotations

from pathlib import Path

import trustme


def write_pki(folder: Path, **callers: str) -> Path:
    """Write a CA, one that signed nothing, a server's certificate and one for each caller, by file and common name."""
    ca, other = trustme.CA(), trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    other.cert_pem.write_to_path(str(folder / "other.pem"))
    signed = {name: ca.issue_cert(f"{common}.test", common_name=common) for name, common in callers.items()}
    for name, cert in {"server": ca.issue_cert("localhost", "127.0.0.1"), **signed}.items():
        cert.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        cert.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    return folder
