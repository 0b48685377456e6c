"""An agent shows who it is: by a token, over TLS, by its own certificate; and finds out whom it speaks to."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from optsched.agent.agent import Agent
from optsched.agent.gpus import DeclaredGpus
from optsched.agent.settings import Settings
from optsched.errors import UsageError
from optsched.values.ids import NodeId
from optsched.wire.access import Access
from tests.agent.agents import run
from tests.certificates import write_pki
from tests.server.service import Served, serving


def tokens(folder: Path) -> str:
    """A file of two agents: one by a token and for n1 alone, one by its certificate."""
    entries = [
        {"name": "a1", "role": "agent", "sha256": hashlib.sha256(b"secret").hexdigest(), "nodes": ["n1"]},
        {"name": "a2", "role": "agent", "certificate": "agent-2", "nodes": ["n2"]},
    ]
    path = folder / "tokens.json"
    path.write_text(json.dumps({"tokens": entries}))
    return str(path)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pki(tmp_path_factory.mktemp("pki"), agent="agent-2")


async def joins(it: Served, folder: Path, node: str, **access: str) -> None:
    """Wait until an agent's node is in service."""
    given = {
        "scheduler": it.service.grpc_address,
        "node": node,
        "gpus": 2,
        "state_dir": str(folder / node),
        "probe": "none",
        "cgroup": "off",
        "seed": 1,
    }
    made = asyncio.create_task(Agent(Settings.model_validate(given | access), DeclaredGpus(2)).run())
    up = asyncio.create_task(
        it.until(
            lambda state: (r := state.nodes.get(NodeId(node))) is not None and r.node.state.value == "up"  # type: ignore[arg-type, return-value]
        )
    )
    await asyncio.wait({made, up}, return_when=asyncio.FIRST_COMPLETED)
    assert not made.done(), made.result()
    made.cancel()
    await asyncio.gather(made, return_exceptions=True)


@asynccontextmanager
async def refused() -> AsyncIterator[list[str]]:
    """At the end an agent has been refused; why is known then."""
    why: list[str] = []
    heard = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            why.append(str(getattr(record, "why", "")))
            heard.set()

    log, listener = logging.getLogger("optsched.agent.link"), Listener(logging.WARNING)
    log.addHandler(listener)
    try:
        yield why
        await heard.wait()
    finally:
        log.removeHandler(listener)


def test_an_agent_is_let_in_by_its_token_which_is_read_anew_for_every_try(tmp_path: Path) -> None:
    """At first the file holds a token that nobody knows; then the right one is put there."""
    token = tmp_path / "token"
    token.write_text("wrong\n")

    async def story() -> None:
        async with serving(tokens=tokens(tmp_path)) as it:
            joining = asyncio.create_task(joins(it, tmp_path, "n1", token_file=str(token)))
            async with refused() as why:
                pass
            assert "the token is not known" in why[0]
            assert NodeId("n1") not in it.state.nodes
            token.write_text("secret\n")
            await joining

    run(story())


def test_authorities_that_cannot_be_used_are_read_anew_too(tmp_path: Path, pki: Path) -> None:
    """At first the file is half written; then the authorities are put there."""
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\n")

    async def story() -> None:
        served = {name: str(pki / file) for name, file in SERVER.items()}
        async with serving(tokens=tokens(tmp_path), **served) as it:
            mine = {"tls_certificate": str(pki / "agent.pem"), "tls_key": str(pki / "agent.key")}
            joining = asyncio.create_task(joins(it, tmp_path, "n2", tls_ca=str(ca), **mine))
            async with refused() as why:
                pass
            assert why[0] == f"tls_ca: {ca} holds no certificate; allowed: a PEM file with those to trust"
            ca.write_bytes((pki / "ca.pem").read_bytes())
            await joining

    run(story())


def test_over_tls_with_a_certificate_no_token_is_needed(tmp_path: Path, pki: Path) -> None:
    async def story() -> None:
        served = {name: str(pki / file) for name, file in SERVER.items()}
        async with serving(tokens=tokens(tmp_path), **served) as it:
            mine = {"tls_certificate": str(pki / "agent.pem"), "tls_key": str(pki / "agent.key")}
            await joins(it, tmp_path, "n2", tls_ca=str(pki / "ca.pem"), **mine)

    run(story())


SERVER = {"tls_certificate": "server.pem", "tls_key": "server.key", "tls_client_ca": "ca.pem"}


def test_half_a_pair_or_a_pair_without_authorities_is_refused() -> None:
    for half in ({"tls_key": "k", "tls_ca": "a"}, {"tls_certificate": "c", "tls_ca": "a"}):
        with pytest.raises(UsageError, match="one is given alone"):
            Access(**half)
    with pytest.raises(UsageError, match="given without tls_ca"):
        Access(tls_certificate="c", tls_key="k")
