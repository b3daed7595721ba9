"""Single calls written by hand, for tests that need to say every byte of one. The modern era needs no session."""
from harness import http

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol"


def modern_call(url, request_id, arguments, meta=None, headers=None, tool="echo", context=None):
    """One `tools/call` of the modern era, which needs no session; returns (status, headers, text)."""
    about = {f"{PREFIX}/protocolVersion": MODERN, f"{PREFIX}/clientCapabilities": {},
             f"{PREFIX}/clientInfo": {"name": "smartgate-real-tests", "version": "1.0.0"}, **(meta or {})}
    body = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": about}}
    mirrored = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool, **(headers or {})}
    return http(url, body, mirrored, context=context)
