"""deploy/observability and deploy/compose.yaml. A real Prometheus scrapes a real gateway with our configuration, and every
query of every dashboard finds something there; alerts and runbook are one to one. The files for the collector, Tempo,
Jaeger and Grafana are read and compared with each other, but those programs do not run here."""

import copy
import functools
import importlib
import json
import re
import shutil
import sys

import grafana_schema
import jsonschema
import yaml

from harness import ROOT, check, free_ports, http, wait_until
from staged import Staged, query, sample_names
from tools import DEPLOY, output, tool

HERE = DEPLOY / "observability"
METRIC = re.compile(r"\b((?:smartgate|mcp)_[a-z_]+)\b(?=[{\[),\s]|$)")
SELDOM = {"smartgate_bridged_calls_total"}  # in docs/metrics.md, and not to be seen in a gateway as staged here
LABELS = {"mcp_method_name", "mcp_protocol_version"}
VARIABLES = {"$__rate_interval": "1m", "$__range": "5m", "$instance": ".*"}


def alerts():
    groups = yaml.safe_load((HERE / "prometheus/alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboards():
    return {file.name: json.loads(file.read_text()) for file in sorted((HERE / "grafana/dashboards").iterdir())}


def expressions(kind):
    """(dashboard and panel, text) of every query to `kind`."""
    return [
        (f"{name}: {panel['title']}", target["expr" if kind == "prometheus" else "query"])
        for name, board in dashboards().items()
        for panel in board["panels"]
        for target in panel["targets"]
        if target["datasource"]["type"] == kind
    ]


def variables():
    """(dashboard and variable, text) of the queries that fill the variables."""
    return [
        (f"{name}: ${variable['name']}", variable["query"])
        for name, board in dashboards().items()
        for variable in board["templating"]["list"]
        if variable["type"] == "query"
    ]


def yaml_files(_bench):
    """Every YAML file of deploy/ is YAML; chart templates are not until they are rendered."""
    for file in [*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]:
        if "templates" not in file.parts:
            check(list(yaml.safe_load_all(file.read_text())), f"{file} is empty")


def boards(_bench):
    sys.path.insert(0, str(HERE / "grafana"))
    maker = importlib.import_module("dashboards")
    stored = {file.name: file.read_text() for file in (HERE / "grafana/dashboards").iterdir()}
    check(stored == maker.files(), "deploy/observability/grafana/dashboards.py was changed and not run")
    found = dashboards()
    check(len({board["uid"] for board in found.values()}) == len(found), "two dashboards have one uid")
    for name, board in found.items():
        check(board["schemaVersion"] >= 36 and board["title"], f"{name}: schemaVersion")
        names = {f"${{{v['name']}}}" for v in board["templating"]["list"] if v["type"] == "datasource"}
        ids = [panel["id"] for panel in board["panels"]]
        check(len(set(ids)) == len(ids), f"{name}: two panels have one id")
        for panel in board["panels"]:
            sources = [panel["datasource"], *(t["datasource"] for t in panel["targets"])]
            check({s["uid"] for s in sources} <= names, f"{name}: {panel['title']} names a source of its own")
            place = panel["gridPos"]
            check(
                place["x"] + place["w"] <= 24 and panel["targets"], f"{name}: {panel['title']} is out of place or empty"
            )


def schema(_bench):
    found = [f"{name}: {fault}" for name, board in dashboards().items() for fault in grafana_schema.faults(board)]
    check(not found, lambda: "\n".join(found))


def schema_finds_faults(_bench):
    """In each kind of place of the dashboards, an unknown member or a value of another type is found. The schema leaves
    open what stands in the options of a transformation."""
    tried, unseen = set(), set()
    for board in dashboards().values():
        for path in places(board):
            kind = tuple("[]" if isinstance(step, int) else step for step in path)
            if kind in tried or kind[:4] == ("panels", "[]", "transformations", "[]") and "options" in kind:
                continue
            tried.add(kind)
            if not grafana_schema.faults(spoilt(board, path)):
                unseen.add(kind)
    check(len(tried) > 50, f"only {len(tried)} kinds of places")
    check(not unseen, f"a fault was not found in {sorted(unseen)}")
    return f"{len(tried)} faults, all found"


def places(value, path=()):
    """The path to every value within."""
    if path:
        yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield from places(inner, (*path, step))


def spoilt(board, path):
    """A copy with an unknown member in the object at `path`, or another type for the value there."""
    spoilt = copy.deepcopy(board)
    holder = functools.reduce(lambda value, step: value[step], path[:-1], spoilt)
    value = holder[path[-1]]
    if isinstance(value, dict):
        value["nobodyKnowsThis"] = 1
    else:
        holder[path[-1]] = 17 if isinstance(value, (str, list)) else "seventeen"
    return spoilt


def runbook(_bench):
    text = (ROOT / "docs/runbook.md").read_text()
    sections = re.findall(r"^## (SmartGate\w+)$", text, re.M)
    names = [rule["alert"] for rule in alerts()]
    check(sorted(sections) == sorted(names), f"alerts without a section or the reverse: {set(sections) ^ set(names)}")
    for rule in alerts():
        check(
            rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}",
            f"{rule['alert']}: its runbook link",
        )
        check(rule["labels"]["severity"] in ("critical", "warning", "info"), f"{rule['alert']}: severity")


def promtool(bench):
    command, folder = tool("promtool"), bench.stack.work / "rules"
    folder.mkdir()
    output([command, "check", "config", HERE / "prometheus/prometheus.yml"])
    for file in (HERE / "prometheus/alerts.yml", ROOT / "tests/deploy/alerts_test.yml"):
        shutil.copy(file, folder)
    output([command, "test", "rules", "alerts_test.yml"], cwd=folder)


def metrics_exist(staged):
    names = sample_names(staged().metrics())
    asked = [*expressions("prometheus"), *variables(), *((rule["alert"], rule["expr"]) for rule in alerts())]
    wanted = {(where, name) for where, text in asked for name in METRIC.findall(text) if name not in LABELS}
    mute = {where for where, text in asked if not METRIC.search(text) and not re.search(r"\bup\b", text)}
    check(not mute, f"no metric in {sorted(mute)}")
    missing = {(where, name) for where, name in wanted if name not in names}
    check(not missing, f"not in /metrics: {sorted(missing)}")
    return f"{len({name for _, name in wanted})} metrics in {len(wanted)} places"


def metrics_documented(staged):
    """docs/metrics.md has every metric with its labels, and no other."""
    rows = re.findall(r"^\| `([a-z_]+)` \|([^|]*)\|", (ROOT / "docs/metrics.md").read_text(), re.M)
    documented = {name: set(re.findall(r"`([a-z_]+)`", labels)) for name, labels in rows}
    real = {}
    for line in staged().metrics().splitlines():
        if line and not line.startswith("#"):
            name, labels = re.match(r"([a-z_]+)(?:\{(.*)\})? ", line).groups()
            name = re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name)
            found = set(re.findall(r'(?:^|,)([a-z_]+)="', labels or "")) - {"le"}
            real.setdefault(name, set()).update(found)
    check(set(real) <= set(documented), f"not in docs/metrics.md: {sorted(set(real) - set(documented))}")
    absent = set(documented) - set(real) - SELDOM
    check(not absent, f"in docs/metrics.md only: {sorted(absent)}")
    wrong = {name: labels for name, labels in real.items() if labels != documented[name]}
    check(not wrong, f"labels in docs/metrics.md differ from: {wrong}")
    return f"{len(real)} metrics"


def attributes_exist(staged):
    seen = staged().attributes()
    wanted = {(where, name) for where, text in expressions("tempo") for name in re.findall(r"span\.([a-z_.]+)", text)}
    check(wanted, "no query to Tempo was understood")
    missing = {(where, name) for where, name in wanted if name not in seen}
    check(not missing, f"in no span: {sorted(missing)}")


def prometheus_answers(bench, staged):
    """Scrapes with the shipped configuration, its target replaced, and asks every query."""
    command = tool("prometheus")
    admin = staged().admin
    folder = bench.stack.work / "prometheus"
    folder.mkdir()
    shutil.copy(HERE / "prometheus/alerts.yml", folder)
    text = (HERE / "prometheus/prometheus.yml").read_text()
    check('"smartgate:9787"' in text and "15s" in text, "the target is not where this test looks for it")
    (folder / "prometheus.yml").write_text(text.replace("smartgate:9787", f"127.0.0.1:{admin}").replace("15s", "1s"))
    (port,) = free_ports(1)
    bench.stack.start(
        "prometheus",
        [
            command,
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        lambda: answers(port),
    )
    wait_until("three scrapes", lambda: query(port, 'count_over_time(up{job="smartgate"}[1m]) > 3'), seconds=30)
    check(
        query(port, 'up{job="smartgate"} == 1'),
        lambda: "Prometheus cannot read /metrics: " + http(f"http://127.0.0.1:{port}/api/v1/targets")[2],
    )
    empty = []
    for where, expression in expressions("prometheus"):
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        if not query(port, expression.removesuffix(" > 0")):  # which hides what did not move in the time shown
            empty.append(where)
    check(not empty, f"panels that show nothing: {empty}")
    for rule in alerts():
        query(port, rule["expr"])
    wait_until(
        "the alert for the failed reload",
        lambda: query(port, 'ALERTS{alertname="SmartGateReloadFailed",alertstate="firing"}'),
    )
    return (
        f"{len(expressions('prometheus'))} queries of dashboards, each with an answer; {len(alerts())} alerts evaluated"
    )


def answers(port):
    try:
        return http(f"http://127.0.0.1:{port}/-/ready", seconds=1)[0] == 200
    except OSError:
        return False


def collector_config(_bench):
    """There is a pipeline for each signal that the gateway sends; each of its parts is defined, every defined part is used,
    and its targets are services of compose."""
    config = yaml.safe_load((HERE / "otel-collector.yaml").read_text())
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for part in ("receivers", "processors", "exporters"):
        used = {name for pipeline in config["service"]["pipelines"].values() for name in pipeline[part]}
        check(used == set(config[part]), f"{part}: used {used}, defined {set(config[part])}")
    check(set(config["service"]["pipelines"]) == {"traces", "logs", "metrics"}, "a signal has no pipeline")
    for name, pipeline in config["service"]["pipelines"].items():
        check(pipeline["processors"] == ["memory_limiter", "batch"], f"{name}: something is sampled, filtered or unbounded")
    for exporter in config["exporters"].values():
        host = exporter["endpoint"].removeprefix("http://").split(":")[0]
        check(host in {*services, "0.0.0.0"}, f"no service {exporter['endpoint']}")


def compose_schema(_bench):
    """The schema of the Compose Specification, as the linter of the tests' Node.js packages has it."""
    schema = json.loads((ROOT / "tests/real/node_modules/dclint/schemas/compose.schema.json").read_text())
    judge = jsonschema.Draft7Validator(schema)
    text = (DEPLOY / "compose.yaml").read_text()
    wrong = [f"{error.json_path}: {error.message}" for error in judge.iter_errors(yaml.safe_load(text))]
    check(not wrong, f"compose.yaml: {wrong}")
    for right, broken in (("mem_limit: 256m", "mem_limit: [256]"), ("read_only: true", "readonly: true")):
        check(right in text, f"{right} is not where this test looks for it")
        check(not judge.is_valid(yaml.safe_load(text.replace(right, broken))), f"the schema takes {broken}")


def compose(bench):
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        for port in service.get("ports", []):
            check(port.startswith("127.0.0.1:"), f"{name} publishes {port} to everyone")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            check(not source.startswith(".") or (DEPLOY / source).exists(), f"{name}: {source} does not exist")
        check(":" in service["image"] and not service["image"].endswith(":latest"), f"{name}: the image has no version")
        check(set(service.get("depends_on", [])) <= set(services), f"{name} depends on nothing")
    check("ports" not in services["everything"], "the server's own port is published")
    file = DEPLOY / "compose/smartgate.toml"
    output([bench.binary, "check", file])
    text = file.read_text()
    for host in re.findall(r'"http://([a-z-]+):', text):
        check(host in services, f"smartgate.toml names {host}, which is no service")
    sources = yaml.safe_load((HERE / "grafana/provisioning/datasources/smartgate.yaml").read_text())["datasources"]
    for source in sources:
        check(re.match(r"http://([a-z-]+):", source["url"])[1] in services, f"{source['name']} points nowhere")


def tests(bench):
    staged = functools.cache(lambda: Staged(bench))
    yield "observability/yaml", lambda: yaml_files(bench)
    yield "observability/dashboards", lambda: boards(bench)
    yield "observability/grafana-schema", lambda: schema(bench)
    yield "observability/grafana-schema-finds-faults", lambda: schema_finds_faults(bench)
    yield "observability/alerts-and-runbook-one-to-one", lambda: runbook(bench)
    yield "observability/promtool", lambda: promtool(bench)
    yield "observability/every-metric-exists", lambda: metrics_exist(staged)
    yield "observability/every-metric-is-documented", lambda: metrics_documented(staged)
    yield "observability/every-span-attribute-exists", lambda: attributes_exist(staged)
    yield "observability/prometheus-answers-every-query", lambda: prometheus_answers(bench, staged)
    yield "observability/collector-config", lambda: collector_config(bench)
    yield "observability/compose-schema", lambda: compose_schema(bench)
    yield "observability/compose", lambda: compose(bench)
