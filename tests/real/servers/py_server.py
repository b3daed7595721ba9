"""An MCP server on the Python SDK 2.x, for the client matrix.

Owns: the tools of a walk (`echo`, `count` with progress, `slow` which ends only when cancelled; `total` with a structured
result, `fail`, and `greet` and `ask_model`, which ask the client) and the event file in which `slow` reports how it ended. Does not own: anything the SDK does on the wire; that is what is tested.
Usage: py_server.py PORT EVENTS_FILE, or py_server.py stdio EVENTS_FILE
"""
import sys
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp.types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

PLACE, EVENTS = sys.argv[1:3]
SLOW_SECONDS = 60
server = MCPServer("smartgate-py-server", version="1.0.0")


def report(event: str, tag: str) -> None:
    with open(EVENTS, "a", encoding="utf-8") as out:
        out.write(f"{event} {tag}\n")


@server.tool()
async def echo(message: str) -> str:
    """Answer with the message."""
    return f"Echo: {message}"


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Report progress once for each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
        await anyio.sleep(0.02)
    return f"Counted to {steps}"


@server.tool()
async def slow(tag: str, ctx: Context) -> str:
    """Report one step of progress, then wait to be cancelled."""
    report("start", tag)
    try:
        await ctx.report_progress(1, 2)
        await anyio.sleep(SLOW_SECONDS)
    except anyio.get_cancelled_exc_class():
        report("cancelled", tag)
        raise
    report("finished", tag)
    return "nobody cancelled"


@server.resource("test://about")
async def about() -> str:
    """What this is."""
    return "a resource of the Python server"


class Total(BaseModel):
    total: int


@server.tool()
async def total(a: int, b: int) -> Total:
    """Add two numbers, as a structured result."""
    return Total(total=a + b)


@server.tool()
async def fail() -> str:
    """End in an error."""
    raise ValueError("this tool always fails")


class Person(BaseModel):
    name: str


async def who() -> Elicit[Person]:
    return Elicit("What is your name?", Person)


async def model() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Say something"))], max_tokens=20)


@server.tool()
async def greet(person: Annotated[Person, Resolve(who)]) -> str:
    """Ask the user for a name and greet them."""
    return f"Hello {person.name}"


@server.tool()
async def ask_model(answer: Annotated[CreateMessageResult, Resolve(model)]) -> str:
    """Ask the client's model."""
    return f"The model said {answer.content.text}"


if PLACE == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(PLACE))
