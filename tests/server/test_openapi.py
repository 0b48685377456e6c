"""What the OpenAPI document says is what is served: any request that it allows gets an answer that it allows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from optsched.server.openapi import document
from optsched.server.routes import ROUTES
from tests.server.service import serving

SMALL = str(Path(__file__).with_name("data") / "small.yaml")

# Streams never end, and have a test of their own.
DOCUMENT = document(route for route in ROUTES if not route.streams)
schema = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service in a thread of its own, for as long as the tests of this file."""
    ready, addresses = threading.Event(), list[str]()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def whole() -> None:
        async with serving(start=SMALL, max_jobs=5000) as it:
            addresses.append(f"http://{it.service.rest_address}")
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(whole()))
    thread.start()
    assert ready.wait(60)
    yield addresses[0]
    loop.call_soon_threadsafe(over.set)
    thread.join(60)
    loop.close()


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_any_request_gets_an_answer_that_the_document_has(case: Case, url: str) -> None:
    response = case.call(base_url=url)
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    case.validate_response(response, checks=checks)
