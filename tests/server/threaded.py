"""A service in a thread of its own, with agents, for callers that do not run on its loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from optsched.client import Client, Settings
from optsched.values.ids import NodeId
from tests.agent.agents import AgentProcess, agent
from tests.server.service import Served, serving

T = TypeVar("T")


@dataclass
class Threaded:
    """A service that runs, and the processes of its agents by node."""

    it: Served
    loop: asyncio.AbstractEventLoop
    folder: Path
    agents: dict[str, AgentProcess] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.it.service.grpc_address

    def client(self, **more: Any) -> Client:
        return Client(Settings(scheduler=self.address, **more))

    def do(self, work: Callable[[Served], Awaitable[T]]) -> T:
        """Do something on the service's loop, and wait for it."""

        async def whole() -> T:
            return await work(self.it)

        return asyncio.run_coroutine_threadsafe(whole(), self.loop).result(300)


@contextmanager
def threaded(folder: Path, *nodes: str, gpus: int = 4, **settings: object) -> Iterator[Threaded]:
    """A service with real agents of some nodes; at the end nothing of them is left."""
    ready, found = threading.Event(), list[Threaded]()
    wrong: list[BaseException] = []
    loop, over = asyncio.new_event_loop(), asyncio.Event()

    async def whole() -> None:
        async with serving(**settings) as it, AsyncExitStack() as stack:
            made = Threaded(it, loop, folder)
            port = int(it.service.grpc_address.rpartition(":")[2])
            for node in nodes:
                made.agents[node] = await stack.enter_async_context(agent(folder / node, port, node=node, gpus=gpus))
            for node in nodes:
                await it.until(lambda state, n=node: _up(state, n))
            found.append(made)
            ready.set()
            await over.wait()

    def run() -> None:
        try:
            loop.run_until_complete(whole())
        except BaseException as error:
            wrong.append(error)
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(300)
    if wrong:
        raise wrong[0]
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def _up(state: Any, node: str) -> bool:
    record = state.nodes.get(NodeId(node))
    return record is not None and record.node.state.value == "up"
