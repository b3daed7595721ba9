"""OTLP to a real collector (rotel): the gateway's spans, metrics and logs are read back from what the collector printed.

A call is made through the gateway with a trace context of ours; the collector must then show one SERVER span of that
trace, a child of ours, and one CLIENT span below it; when the gateway ends, also its metrics, and a log record that is
the journal's line. Done for gRPC and for HTTP with protobuf bodies.
"""
import re
import secrets

from calls import MODERN, modern_call
from gateway import Gateway
from harness import ROOT, check, free_ports, http, listening, run, wait_until

AGENT_FOLDERS = (ROOT / ".tools/tools/lib").glob("python3*/site-packages/rotel")
FIELDS = {"Trace ID": "trace", "Parent ID": "parent", "ID": "id", "Name": "name", "Kind": "kind", "Status code": "status"}
FIELD = re.compile(r"^\s+(Trace ID|Parent ID|ID|Name|Kind|Status code)\s*: ?(.*)$")
OTHER = re.compile(r"(ResourceMetrics|ResourceLog|LogRecord|Metric|SpanEvent #|Event|Events)\b")
ATTRIBUTE = re.compile(r"^\s+-> ([^:]+): \w+\((.*)\)$")


class Collector:
    """A running collector. `spans()` parses everything it has printed so far."""

    def __init__(self, bench):
        self.grpc, self.http = free_ports(2)
        binary = next(AGENT_FOLDERS) / "rotel-agent"
        binary.chmod(0o755)
        files = {f"ROTEL_{kind}_FILE": str(bench.stack.work / f"rotel.{kind.lower()}") for kind in ("PID", "LOG")}
        self.process = bench.stack.start("collector", [
            binary, "start", "--exporter", "blackhole", "--debug-log-verbosity", "detailed",
            *[word for signal in ("traces", "metrics", "logs") for word in ("--debug-log", signal)],
            "--otlp-grpc-endpoint", f"127.0.0.1:{self.grpc}", "--otlp-http-endpoint", f"127.0.0.1:{self.http}",
        ], lambda: listening(self.grpc) and listening(self.http), env=files)

    def spans(self):
        """Each span as a dict of its fields with `attributes`, and `resource` for those of its resource."""
        found, resource, into, span = [], {}, {}, {}
        for line in self.process.log.read_text(errors="replace").splitlines():
            if line.startswith("ResourceSpans #"):
                resource = into = {}
            elif line.startswith("Span #"):
                into = {}
                span = {"resource": resource, "attributes": into}
                found.append(span)
            elif OTHER.match(line):
                into, span = {}, {}
            elif match := FIELD.match(line):
                span[FIELDS[match[1]]] = match[2].strip()
            elif match := ATTRIBUTE.match(line):
                into[match[1].strip()] = match[2]
        return found


def sample(trace):
    """One span as OTLP JSON, to see that the collector and the parser of its output work."""
    attribute = {"key": "mcp.method.name", "value": {"stringValue": "tools/call"}}
    span = {"traceId": trace, "spanId": secrets.token_hex(8), "name": "tools/call echo", "kind": 2,
            "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000", "attributes": [attribute]}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "sample"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "s"}, "spans": [span]}]}]}


def takes_a_span(bench):
    collector = bench.once("collector", lambda: Collector(bench))
    trace = secrets.token_hex(16)
    status, _, text = http(f"http://127.0.0.1:{collector.http}/v1/traces", sample(trace))
    check(status == 200, f"the collector answered {status}: {text}")
    wait_until("the sample span", lambda: of_trace(collector, trace))
    found = of_trace(collector, trace)[0]
    check(found["name"] == "tools/call echo" and found["attributes"] == {"mcp.method.name": "tools/call"}, f"read back: {found}")
    check(found["resource"] == {"service.name": "sample"}, f"resource: {found['resource']}")


def of_trace(collector, trace):
    return [span for span in collector.spans() if span.get("trace") == trace]


def spans_arrive(bench, protocol, carrier):
    """`carrier` says where the caller's trace context is: in `_meta` or in the HTTP header."""
    def test():
        collector = bench.once("collector", lambda: Collector(bench))
        server = bench.server("typescript")
        port = collector.grpc if protocol == "grpc" else collector.http
        extra = f'[telemetry]\notlp = "http://127.0.0.1:{port}"\nservice_name = "smartgate-real"\n'
        extra += "" if protocol == "grpc" else f'protocol = "{protocol}"\n'
        gateway = bench.once(("otlp", protocol), lambda: Gateway(
            bench, f"otlp-{protocol.replace('/', '-')}", server.url, extra=extra))
        trace, caller = secrets.token_hex(16), secrets.token_hex(8)
        context = {"traceparent": f"00-{trace}-{caller}-00"}  # not sampled by the caller: recorded all the same
        where = {"meta": context} if carrier == "meta" else {"headers": context}
        status, _, text = modern_call(gateway.url, "trace-1", {"message": "traced"}, **where)
        check(status == 200 and "Echo: traced" in text, f"the call itself: {status} {text}")
        wait_until("both spans at the collector", lambda: len(of_trace(collector, trace)) >= 2)
        judge(of_trace(collector, trace), caller, server)

    return test


def a_range_is_sent_again(bench):
    """Calls while no collector listens are in the journal, and `audit export` brings their spans; doing it twice brings the
    same ones."""
    collector = bench.once("collector", lambda: Collector(bench))
    server = bench.server("typescript")
    nobody, = free_ports(1)
    gateway = Gateway(bench, "otlp-away", server.url, extra=f'[telemetry]\notlp = "http://127.0.0.1:{nobody}"\n')
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    headers = {"traceparent": f"00-{trace}-{caller}-01"}
    status, _, text = modern_call(gateway.url, "trace-1", {"message": "traced"}, headers=headers)
    check(status == 200, f"the call itself: {status} {text}")
    wait_until("the record", lambda: any(r["trace_id"] == trace for r in gateway.records()))
    for times in (1, 2):
        status, out, err = run([bench.binary, "audit", "export", "--otlp", f"http://127.0.0.1:{collector.grpc}",
                                "--service-name", "smartgate-real", "--since", "1h", gateway.journal])
        check(status == 0 and out.split()[:2] == ["records", "1"], f"export exited {status}: {out}{err}")
        wait_until("the spans at the collector", lambda: len(of_trace(collector, trace)) >= 2 * times)
    spans = of_trace(collector, trace)
    judge(spans[:2], caller, server)
    check(spans[:2] == spans[2:], f"sent twice, and not the same: {spans}")


def judge(spans, caller, server):
    kinds = {span["kind"]: span for span in spans}
    check(len(spans) == 2 and set(kinds) == {"SPAN_KIND_SERVER", "SPAN_KIND_CLIENT"}, f"spans: {spans}")
    outer, inner = kinds["SPAN_KIND_SERVER"], kinds["SPAN_KIND_CLIENT"]
    check(outer["parent"] == caller, f"the server span's parent is {outer['parent']}, the caller's span {caller}")
    check(inner["parent"] == outer["id"], f"the client span's parent is {inner['parent']}, not {outer['id']}")
    for span in (outer, inner):
        check(span["name"] == "tools/call echo", f"span name {span['name']!r}")
        expected = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool",
                    "jsonrpc.request.id": "trace-1", "mcp.protocol.version": MODERN, "network.transport": "tcp"}
        found = {key: span["attributes"].get(key) for key in expected}
        check(found == expected, f"{span['kind']} attributes {span['attributes']}, expected {expected}")
        check(span["resource"].get("service.name") == "smartgate-real", f"resource {span['resource']}")
    port = server.url.split(":")[2].split("/")[0]
    address = (inner["attributes"].get("server.address"), inner["attributes"].get("server.port"))
    check(address == ("127.0.0.1", port), f"the client span's server is {address}")


def signals_arrive(bench, protocol):
    """What a gateway exports beside spans has all come when it has ended."""
    def test():
        collector = bench.once("collector", lambda: Collector(bench))
        server = bench.server("typescript")
        port = collector.grpc if protocol == "grpc" else collector.http
        name = f"signals-{protocol.replace('/', '-')}"
        extra = f'[telemetry]\notlp = "http://127.0.0.1:{port}"\nservice_name = "{name}"\nprotocol = "{protocol}"\n'
        gateway = Gateway(bench, name, server.url, extra=extra)
        status, _, text = modern_call(gateway.url, "signals-1", {"message": "measured"})
        check(status == 200, f"the call itself: {status} {text}")
        gateway.stop()
        line = next(l for l in reversed(gateway.journal.read_text().splitlines()) if '"kind":"call"' in l)
        printed = lambda: collector.process.log.read_text(errors="replace")
        wait_until("the journal's line as a log record", lambda: f"Body: Str({line})" in printed())
        part = printed()[printed().index(f"service.name: Str({name})"):]
        for said in ("EventName: smartgate.audit.call", "Name: smartgate.calls\n", "Name: mcp.server.operation.duration\n",
                     "IsMonotonic: true", "AggregationTemporality: AGGREGATION_TEMPORALITY_CUMULATIVE"):
            check(said in part, f"{said!r} is not in what the collector printed: {part[-4000:]}")

    return test


def tests(bench):
    yield "collector/takes-a-span", lambda: takes_a_span(bench)
    if bench.binary is not None:
        for protocol in ("grpc", "http/protobuf"):
            for carrier in ("meta", "header"):
                yield f"collector/{protocol}/{carrier}", spans_arrive(bench, protocol, carrier)
            yield f"collector/{protocol}/signals", signals_arrive(bench, protocol)
        yield "collector/a-range-is-sent-again", lambda: a_range_is_sent_again(bench)
