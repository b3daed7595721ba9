"""Panels and the frame of a dashboard: what is the same for all of them. Knows no metric's name but the one that lists
the instances. Standard library only."""

ME = 'instance=~"$instance"'
METRICS = {"type": "prometheus", "uid": "${metrics}"}
TRACES = {"type": "tempo", "uid": "${traces}"}
WIDTH, HEIGHT = 24, 8


def graph(title, unit, *queries, help=""):
    """A time series; each query is (PromQL, legend)."""
    return {
        "type": "timeseries",
        "title": title,
        "description": help,
        "datasource": METRICS,
        "targets": targets(queries),
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi"},
        },
    }


def number(title, unit, query, bad=None):
    """One number; red from `bad` on."""
    steps = [{"color": "green", "value": None}] + ([{"color": "red", "value": bad}] if bad is not None else [])
    return {
        "type": "stat",
        "title": title,
        "description": "",
        "datasource": METRICS,
        "targets": targets([(query, "")], instant=True),
        "fieldConfig": {
            "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"},
    }


def table(title, query, columns, help=""):
    """The series of an instant query as rows; `columns` maps labels to headings."""
    hidden = {name: True for name in ("Time", "__name__", "instance", "job")}
    return {
        "type": "table",
        "title": title,
        "description": help,
        "datasource": METRICS,
        "targets": [{**target, "format": "table"} for target in targets([(query, "")], instant=True)],
        "fieldConfig": {"defaults": {}, "overrides": []},
        "options": {"sortBy": [{"displayName": columns["Value"], "desc": True}]},
        "transformations": [{"id": "organize", "options": {"excludeByName": hidden, "renameByName": columns}}],
    }


def traces(title, query, help=""):
    """Spans that a TraceQL query finds."""
    return {
        "type": "table",
        "title": title,
        "description": help,
        "datasource": TRACES,
        "targets": [
            {
                "refId": "A",
                "datasource": TRACES,
                "queryType": "traceql",
                "query": query,
                "tableType": "spans",
                "limit": 50,
            }
        ],
        "fieldConfig": {"defaults": {}, "overrides": []},
        "options": {},
    }


def targets(queries, instant=False):
    return [
        {
            "refId": chr(ord("A") + n),
            "datasource": METRICS,
            "expr": query,
            "legendFormat": legend or "__auto",
            "instant": instant,
            "range": not instant,
        }
        for n, (query, legend) in enumerate(queries)
    ]


def rate(metric, labels="", by=""):
    inside = ",".join(filter(None, [labels, ME]))
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{inside}}}[$__rate_interval]))"


def quantile(q, metric, labels="", by=""):
    return f"histogram_quantile({q}, {rate(metric + '_bucket', labels, ','.join(filter(None, [by, 'le'])))})"


def variable(name, kind, query):
    base = {"name": name, "type": kind, "query": query, "refresh": 1, "hide": 0}
    if kind == "query":
        base.update(
            datasource=METRICS, multi=True, includeAll=True, allValue=".*", current={"text": "All", "value": "$__all"}
        )
    return base


def dashboard(uid, title, rows):
    panels, y = [], 0
    for row in rows:
        height = 4 if all(panel["type"] == "stat" for panel in row) else HEIGHT
        for n, panel in enumerate(row):
            width = WIDTH // len(row)
            panels.append(
                {"id": len(panels) + 1, "gridPos": {"x": n * width, "y": y, "w": width, "h": height}, **panel}
            )
        y += height
    return {
        "uid": f"smartgate-{uid}",
        "title": f"SmartGate: {title}",
        "tags": ["smartgate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "timezone": "browser",
        "links": [
            {"type": "dashboards", "title": "SmartGate", "tags": ["smartgate"], "asDropdown": True, "keepTime": True}
        ],
        "templating": {
            "list": [
                variable("metrics", "datasource", "prometheus"),
                variable("traces", "datasource", "tempo"),
                variable("instance", "query", "label_values(smartgate_build_info, instance)"),
            ]
        },
        "annotations": {"list": []},
        "panels": panels,
    }
