"""An agent from its start to SIGTERM, SIGINT, or a word of the scheduler that it is not wanted."""

from __future__ import annotations

import asyncio
import signal

from optsched.agent.agent import Agent
from optsched.agent.gpus import Gpus
from optsched.agent.link import Stop
from optsched.agent.settings import Settings
from optsched.errors import UsageError

_WORDS = {
    Stop.TWO_AGENTS: "another agent is served for this node, and an operator has to look",
    Stop.SUPERSEDED: "a newer agent is served for this node; what runs is left to it",
    Stop.VERSION: "the scheduler does not serve agents of this version",
}


async def serve(settings: Settings, gpus: Gpus) -> str | None:
    """Serve a node; return why no longer, None where that was asked by a signal.

    Raises UsageError where the scheduler refuses what this agent says of its node, StoreError or OSError.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    agent = asyncio.create_task(Agent(settings, gpus).run())
    asked = asyncio.create_task(stop.wait())
    await asyncio.wait({agent, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not agent.done():
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)
        return None
    found, reason = agent.result()
    if found is Stop.INVALID:
        raise UsageError(f"the scheduler refuses this node: {reason}")
    return f"{_WORDS[found]}: {reason}"
