#!/usr/bin/env python3
"""Writes dashboards/*.json: run it after a change here. Standard library only; a test compares the files with it.

A dashboard is rows of panels; a panel is a title, a unit and queries.
"""

import json
import pathlib

from panels import ME, dashboard, graph, number, quantile, rate, table, traces

HERE = pathlib.Path(__file__).resolve().parent
CALLS = "smartgate_calls_total"
SERVER, CLIENT = "mcp_server_operation_duration_seconds", "mcp_client_operation_duration_seconds"
TOOLS = 'mcp_method_name="tools/call"'


def overview():
    failed = rate(CALLS, 'outcome=~"upstream_failed|panicked"')
    return "Overview", [
        [
            number("Calls", "reqps", rate(CALLS)),
            number("Failed", "percentunit", f"({failed} or vector(0)) / {rate(CALLS)}", bad=0.05),
            number("95th percentile", "s", quantile(0.95, SERVER), bad=10),
            number("In flight", "none", f"sum(smartgate_calls_in_flight{{{ME}}})"),
            number("Open streams", "none", f"sum(smartgate_open_streams{{{ME}}})"),
            number("Upstreams down", "none", f"count(smartgate_upstream_up{{{ME}}} == 0) or vector(0)", bad=1),
        ],
        [
            graph("Calls by outcome", "reqps", (rate(CALLS, by="outcome"), "{{outcome}}")),
            graph("Time to the end of the answer", "s", *[(quantile(q, SERVER), f"{q}") for q in (0.5, 0.95, 0.99)]),
        ],
        [
            graph(
                "Journal",
                "none",
                (rate("smartgate_journal_records_total"), "records/s"),
                (rate("smartgate_journal_errors_total"), "errors/s"),
                (rate("smartgate_journal_lost_total"), "lost/s"),
                (f"sum(smartgate_journal_backlog{{{ME}}})", "waiting"),
            ),
            graph(
                "Spans",
                "none",
                (rate("smartgate_spans_exported_total"), "exported/s"),
                (rate("smartgate_spans_dropped_total"), "dropped/s"),
            ),
        ],
        [
            graph("Reloads", "none", (f"sum by (result) (smartgate_reloads_total{{{ME}}})", "{{result}}")),
            graph(
                "Refused by the HTTP parser", "reqps", (rate("smartgate_http_refused_total", by="reason"), "{{reason}}")
            ),
            table(
                "Versions",
                f"count by (version) (smartgate_build_info{{{ME}}})",
                {"version": "Version", "Value": "Gateways"},
            ),
        ],
    ]


def tools():
    tool = 'tool!=""'
    errors = rate(CALLS, tool + ',outcome!="ok"', "tool,outcome")
    return "Tools", [
        [
            graph("Calls by tool", "reqps", (f"topk(15, {rate(CALLS, tool, 'tool')})", "{{tool}}")),
            graph(
                "Errors by tool",
                "reqps",
                (f"topk(15, {errors})", "{{tool}} {{outcome}}"),
                help="tool_error is the tool's own isError, rejected the gateway, upstream_failed the way to the server.",
            ),
        ],
        [
            graph(
                "95th percentile by tool",
                "s",
                (f"topk(15, {quantile(0.95, SERVER, TOOLS, 'gen_ai_tool_name')})", "{{gen_ai_tool_name}}"),
            ),
            graph(
                "Median by tool",
                "s",
                (f"topk(15, {quantile(0.5, SERVER, TOOLS, 'gen_ai_tool_name')})", "{{gen_ai_tool_name}}"),
            ),
        ],
        [
            table(
                "Calls in the time shown",
                f"sum by (tool, upstream, outcome) (increase({CALLS}{{{tool},{ME}}}[$__range])) > 0",
                {"tool": "Tool", "upstream": "Upstream", "outcome": "Outcome", "Value": "Calls"},
            )
        ],
        [
            graph("Calls by method", "reqps", (rate(CALLS, by="method"), "{{method}}")),
            graph(
                "Protocol revisions",
                "reqps",
                (rate(SERVER + "_count", by="mcp_protocol_version"), "{{mcp_protocol_version}}"),
            ),
        ],
    ]


def keys():
    calls, refusals = "smartgate_key_calls_total", "smartgate_key_refusals_total"
    used, limit = (f"sum by (key, unit, window) (smartgate_key_budget_{what}{{{ME}}})" for what in ("used", "limit"))
    return "Keys and budgets", [
        [
            graph("Calls by key", "reqps", (f"topk(15, {rate(calls, by='key')})", "{{key}}")),
            graph(
                "Refused calls by key and reason",
                "reqps",
                (f"topk(15, {rate(refusals, by='key,reason')})", "{{key}} {{reason}}"),
                help="docs/errors.md has the reasons.",
            ),
        ],
        [
            graph(
                "Budget used, of what there is",
                "percentunit",
                (f"{used} / {limit}", "{{key}} {{unit}}/{{window}}"),
                help="Of all gateways shown together: budgets are each gateway's own.",
            ),
            table(
                "Calls of keys in the time shown",
                f"sum by (key, outcome) (increase({calls}{{{ME}}}[$__range])) > 0",
                {"key": "Key", "outcome": "Outcome", "Value": "Calls"},
            ),
        ],
        [
            graph(
                "Refused by limits",
                "reqps",
                (rate("smartgate_rate_limited_total", by="wall"), "{{wall}}"),
                help="key and tool are rates of a key, address is the rate without keys, concurrency the places in flight.",
            ),
            graph(
                "Turned away unread",
                "reqps",
                (rate(CALLS, 'outcome="rejected",method=""'), "requests"),
                help="Wrong or missing keys, foreign origins, unknown paths: the journal says which.",
            ),
        ],
        [
            graph(
                "Budget exhausted by tool",
                "reqps",
                (rate(SERVER + "_count", 'error_type="budget_exhausted"', "gen_ai_tool_name"), "{{gen_ai_tool_name}}"),
            ),
        ],
        [
            traces(
                "Refused calls with their key",
                '{ span.smartgate.outcome = "rejected" } '
                "| select(span.smartgate.principal, span.smartgate.error.reason, span.gen_ai.tool.name)",
                help="Each with its trace; the counts by key are above.",
            )
        ],
        [
            traces(
                "Tokens of calls with a budget",
                "{ span.smartgate.tokens.out >= 0 } | select(span.smartgate.principal, span.gen_ai.tool.name, "
                "span.smartgate.tokens.in, span.smartgate.tokens.out, span.smartgate.tokens.saved)",
            )
        ],
    ]


def repairs():
    metric = "smartgate_repairs_total"
    return "Repairs", [
        [
            number("Repairs", "ops", rate(metric)),
            number("Repairs for each call", "percentunit", f"{rate(metric)} / {rate(CALLS)}"),
        ],
        [
            graph("By rule", "ops", (rate(metric, by="rule"), "{{rule}}")),
            graph(
                "By client",
                "ops",
                (f"topk(15, {rate(metric, by='client_name,client_version')})", "{{client_name}} {{client_version}}"),
            ),
        ],
        [
            table(
                "Who sends what wrong, in the time shown",
                f"sum by (client_name, client_version, rule) (increase({metric}{{{ME}}}[$__range])) > 0",
                {"client_name": "Client", "client_version": "Version", "rule": "Rule", "Value": "Repairs"},
                help="docs/normalization.md says what each rule does.",
            )
        ],
    ]


def upstreams():
    by = "server_address,server_port"
    return "Upstream health", [
        [
            graph(
                "Up",
                "none",
                (f"smartgate_upstream_up{{{ME}}}", "{{upstream}} {{instance}}"),
                help="1 while the gateway's own requests are answered.",
            ),
            graph("Calls by upstream", "reqps", (rate(CALLS, 'upstream!=""', "upstream"), "{{upstream}}")),
        ],
        [
            graph(
                "Failed at the upstream",
                "reqps",
                (rate(CALLS, 'outcome="upstream_failed"', "upstream"), "{{upstream}}"),
            ),
            graph(
                "Failed attempts by reason",
                "reqps",
                (
                    rate(CLIENT + "_count", 'error_type!=""', "server_address,server_port,error_type"),
                    "{{server_address}}:{{server_port}} {{error_type}}",
                ),
            ),
        ],
        [
            graph(
                "95th percentile of an attempt",
                "s",
                (quantile(0.95, CLIENT, by=by), "{{server_address}}:{{server_port}}"),
            ),
            graph(
                "What the gateway adds, on average",
                "s",
                (f"({rate(SERVER + '_sum')} - {rate(CLIENT + '_sum')}) / {rate(SERVER + '_count')}", "gateway"),
                help="The time of calls less the time of their attempts; waits before a retry count.",
            ),
        ],
    ]


def files():
    """{file name: text}"""
    makers = {"overview": overview, "tools": tools, "keys": keys, "repairs": repairs, "upstreams": upstreams}
    return {f"{uid}.json": json.dumps(dashboard(uid, *make()), indent=1) + "\n" for uid, make in makers.items()}


if __name__ == "__main__":
    for name, text in files().items():
        (HERE / "dashboards" / name).write_text(text)
