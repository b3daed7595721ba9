"""What both Python clients of a session share: commands are read as JSON lines, each is answered by one JSON line.

Owns the loop and the shape of answers; the SDK's own calls are in `session_py1.py` and `session_py2.py`.
A command that fails is answered with `{"failed": ...}`; the session goes on.
"""
import argparse
import json
import sys

import anyio

MOST_PAGES = 50


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--mode", default="auto")
    return parser.parse_args()


async def every_page(list_page, member: str) -> list:
    """The entries of all pages, as JSON."""
    found, cursor = [], None
    for _ in range(MOST_PAGES):
        page = (await list_page(cursor)).model_dump(by_alias=True, mode="json", exclude_none=True)
        found += page[member]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found
    raise RuntimeError(f"{member} has more than {MOST_PAGES} pages")


async def lists(client) -> dict:
    return {
        "tools": [tool["name"] for tool in await every_page(client.tools, "tools")],
        "prompts": [prompt["name"] for prompt in await every_page(client.prompts, "prompts")],
        "resources": [resource["uri"] for resource in await every_page(client.resources, "resources")],
        "templates": [each["uriTemplate"] for each in await every_page(client.templates, "resourceTemplates")],
    }


async def obey(client, command: dict) -> dict:
    match command["do"]:
        case "lists":
            return await lists(client)
        case "call":
            result = (await client.call(command["name"], command["arguments"])).model_dump(by_alias=True, mode="json")
            text = "".join(part.get("text", "") for part in result["content"])
            return {"text": text, "error": bool(result.get("isError"))}
        case "prompt":
            result = await client.prompt(command["name"], command["arguments"])
            return {"text": "".join(getattr(each.content, "text", "") for each in result.messages)}
        case "read":
            result = await client.read(command["uri"])
            return {"text": "".join(getattr(each, "text", "") for each in result.contents)}
    raise ValueError(f"unknown command {command['do']}")


def reason(failure: BaseException) -> str:
    """Groups of failures say nothing by themselves."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return f"{type(failure).__name__}: {failure}"


def say(answer: dict) -> None:
    print(json.dumps(answer), flush=True)


async def serve(client, protocol: str) -> None:
    """Obeys until the input ends."""
    say({"protocol": protocol})
    async for line in anyio.wrap_file(sys.stdin):
        try:
            with anyio.fail_after(30):
                answer = await obey(client, json.loads(line))
        except Exception as failure:
            answer = {"failed": reason(failure)}
        say(answer)
