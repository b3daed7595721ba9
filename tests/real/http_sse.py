"""HTTP+SSE, the transport of 2024-11-05, on both sides of the gateway.

A server that speaks nothing else behind the gateway, walked by every client in its legacy mode; and a client that
speaks nothing else (the Python SDK 1.x) before a server over streamable HTTP, and before the first one.
"""
import json

import matrix
import upstreams
from gateway import Gateway
from harness import NODE, check, free_ports, listening


def server(bench):
    def start():
        port, = free_ports(1)
        command = [NODE, upstreams.EVERYTHING, "sse"]
        bench.stack.start(f"server-sse-{port}", command, lambda: listening(port), env={"PORT": str(port)})
        return upstreams.Server("everything", f"http://127.0.0.1:{port}/sse", False, None)

    return bench.once("sse server", start)


def gateway(bench):
    return bench.once("sse gateway", lambda: Gateway(bench, "http-sse", server(bench).url, protocol="sse"))


def walk(bench, client, which, url):
    seen = matrix.walk(bench, client, "legacy", which, url)
    matrix.judge(seen, matrix.revision(False))


def beside(url):
    return url.removesuffix("/mcp") + "/sse"


def before_a_streamable_server(bench):
    plain = bench.server("everything")
    before = bench.once("sse client gateway", lambda: Gateway(bench, "http-sse-client", plain.url))
    walk(bench, "python1", plain, beside(before.url))


def journals(bench):
    for key in ("sse gateway", "sse client gateway"):
        one = bench.once(key, None)
        one.stop()
        bad = [r for r in one.records() if r["method"] in matrix.ANSWERED and r["outcome"] != "ok"]
        check(not bad, lambda: json.dumps(bad[:2]))
        check([r for r in one.records() if r["tool"] == "echo"], "no call is in the journal")
        one.verify_journal()


def tests(bench):
    if bench.binary is None:
        return
    for client in matrix.CLIENTS:
        yield f"http-sse/server/{client}", lambda client=client: walk(bench, client, server(bench), gateway(bench).url)
    yield "http-sse/client/streamable", lambda: before_a_streamable_server(bench)
    yield "http-sse/client/http-sse", lambda: walk(bench, "python1", server(bench), beside(gateway(bench).url))
    yield "http-sse/journals", lambda: journals(bench)
