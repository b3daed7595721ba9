//! Where spans, metrics and logs go: `[telemetry]` of the file first, then the standard `OTEL_*` environment variables
//! (OpenTelemetry specification, "OTLP exporter configuration"). Owns that order of precedence and nothing of
//! the sending. Invariant: header values are secrets and never part of a message.

use std::{path::PathBuf, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, uri::PathAndQuery};
use percent_encoding::percent_decode_str;

use crate::config::{OtlpProtocol, Telemetry};

/// One of the three kinds of telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Numbers.
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// As paths and labels have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// What one request holds.
    pub(super) fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "metrics",
            Self::Logs => "log records",
        }
    }

    /// As names of variables have it.
    fn variable(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        }
    }

    fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }

    fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }
}

/// Between two exports of the metrics (OpenTelemetry specification, "Periodic exporting MetricReader").
const INTERVAL: Duration = Duration::from_secs(60);
/// The specification's default for one export.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The port that belongs to HTTP where nobody names a protocol.
const HTTP_PORT: u16 = 4318;

/// What goes where.
#[derive(Debug)]
pub(super) struct Exports {
    pub(super) traces: Option<Settings>,
    pub(super) metrics: Option<Settings>,
    pub(super) logs: Option<Settings>,
    /// Between two exports of the metrics.
    pub(super) interval: Duration,
}

/// Everything the exporter needs to know of one signal.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) url: Uri,
    pub(super) protocol: OtlpProtocol,
    pub(super) headers: HeaderMap,
    pub(super) timeout: Duration,
    /// A CA beside the system's, PEM.
    pub(super) ca: Option<PathBuf>,
    /// Attributes of the resource, `service.name` first.
    pub(super) resource: Vec<(String, String)>,
}

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Exports {
    /// From the file and the process's environment; `None` where nobody names a collector.
    ///
    /// # Errors
    /// What is wrong with which setting.
    pub(super) fn resolve(telemetry: &Telemetry) -> Result<Option<Self>, String> {
        Self::from(telemetry, &|name| std::env::var(name).ok().filter(|v| !v.trim().is_empty()))
    }

    fn from(telemetry: &Telemetry, env: Env<'_>) -> Result<Option<Self>, String> {
        let of = |signal, wanted: bool| match wanted {
            true => Settings::from(telemetry, env, signal),
            false => Ok(None),
        };
        let all = Self {
            traces: of(Signal::Traces, true)?,
            metrics: of(Signal::Metrics, telemetry.metrics)?,
            logs: of(Signal::Logs, telemetry.logs)?,
            interval: millis(env("OTEL_METRIC_EXPORT_INTERVAL")).unwrap_or(INTERVAL),
        };
        let any = [&all.traces, &all.metrics, &all.logs].iter().any(|settings| settings.is_some());
        if any {
            warn_of_ignored(env);
        }
        Ok(any.then_some(all))
    }
}

impl Settings {
    /// What the user said of the resource, and what we know of it.
    pub(super) fn resource_of(&self, boot: &str) -> Vec<(String, String)> {
        let mut all = self.resource.clone();
        for (key, value) in [("service.version", env!("CARGO_PKG_VERSION")), ("service.instance.id", boot)] {
            if !all.iter().any(|(written, _)| written == key) {
                all.push((key.to_owned(), value.to_owned()));
            }
        }
        all
    }

    fn from(telemetry: &Telemetry, env: Env<'_>, signal: Signal) -> Result<Option<Self>, String> {
        let Some((place, address, whole)) = endpoint(telemetry, env, signal) else { return Ok(None) };
        let base = parse(&address).ok_or(format!("{place}: not an http or https URL"))?;
        let protocol = match telemetry.protocol {
            Some(protocol) => protocol,
            None => protocol(env, signal, &base)?,
        };
        Ok(Some(Self {
            url: with_path(base, protocol, signal, whole),
            protocol,
            headers: headers(telemetry, env, signal)?,
            timeout: millis(either(env, signal, "TIMEOUT")).unwrap_or(TIMEOUT),
            ca: either(env, signal, "CERTIFICATE").map(PathBuf::from),
            resource: resource(telemetry, env),
        }))
    }
}

/// The variable for the signal, else the one for every signal.
fn either(env: Env<'_>, signal: Signal, suffix: &str) -> Option<String> {
    env(&format!("OTEL_EXPORTER_OTLP_{}_{suffix}", signal.variable()))
        .or_else(|| env(&format!("OTEL_EXPORTER_OTLP_{suffix}")))
}

/// Who names the collector, its address, and whether that is already the whole URL.
fn endpoint(telemetry: &Telemetry, env: Env<'_>, signal: Signal) -> Option<(String, String, bool)> {
    if let Some(otlp) = &telemetry.otlp {
        return Some(("telemetry.otlp".to_owned(), otlp.clone(), false));
    }
    let disabled = env("OTEL_SDK_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    // A list; whatever is not `otlp` is another way that this program does not have.
    let exporter = env(&format!("OTEL_{}_EXPORTER", signal.variable()));
    let elsewhere = exporter.is_some_and(|v| !v.split(',').any(|e| e.trim().eq_ignore_ascii_case("otlp")));
    if disabled || elsewhere {
        return None;
    }
    let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.variable());
    let every = "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned();
    match env(&own) {
        Some(address) => Some((own, address, true)),
        None => env(&every).map(|address| (every, address, false)),
    }
}

fn warn_of_ignored(env: Env<'_>) {
    for name in ["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"] {
        if env(name).is_some() {
            tracing::warn!(variable = name, "ignored: audit spans are never sampled out");
        }
    }
    let delta = env("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE");
    if delta.is_some_and(|v| !v.eq_ignore_ascii_case("cumulative")) {
        let variable = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        tracing::warn!(variable, "ignored: metrics are cumulative");
    }
    if Signal::ALL.iter().any(|signal| either(env, *signal, "COMPRESSION").is_some_and(|v| v != "none")) {
        tracing::warn!(variable = "OTEL_EXPORTER_OTLP_COMPRESSION", "ignored: not in this version");
    }
}

/// gRPC collectors are often named without a scheme.
fn parse(address: &str) -> Option<Uri> {
    let address = address.trim();
    let full = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let url: Uri = full.parse().ok()?;
    let fits =
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|h| !h.is_empty());
    fits.then_some(url)
}

fn protocol(env: Env<'_>, signal: Signal, base: &Uri) -> Result<OtlpProtocol, String> {
    match either(env, signal, "PROTOCOL").as_deref() {
        None if base.port_u16() == Some(HTTP_PORT) => Ok(OtlpProtocol::HttpProtobuf),
        None | Some("grpc") => Ok(OtlpProtocol::Grpc),
        Some("http/protobuf") => Ok(OtlpProtocol::HttpProtobuf),
        Some(other) => Err(format!("OTEL_EXPORTER_OTLP_PROTOCOL: {other:?} is not in this version")),
    }
}

/// gRPC has one path. Over HTTP the signal's path is appended, in place of another signal's, unless the variable
/// for the signal gave the URL to be used as it is.
fn with_path(base: Uri, protocol: OtlpProtocol, signal: Signal, whole: bool) -> Uri {
    let written = base.path().trim_end_matches('/');
    let path = match protocol {
        OtlpProtocol::Grpc => signal.grpc_path().to_owned(),
        OtlpProtocol::HttpProtobuf if whole => base.path().to_owned(),
        OtlpProtocol::HttpProtobuf => {
            let root = Signal::ALL.iter().find_map(|other| written.strip_suffix(other.http_path()));
            format!("{}{}", root.unwrap_or(written), signal.http_path())
        }
    };
    let mut parts = base.into_parts();
    parts.path_and_query = PathAndQuery::try_from(path).ok();
    Uri::from_parts(parts).expect("scheme, host and path make a URL")
}

fn headers(telemetry: &Telemetry, env: Env<'_>, signal: Signal) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let listed = either(env, signal, "HEADERS").unwrap_or_default();
    for (name, value) in pairs(&listed) {
        match header(&name, &value) {
            Some((name, value)) => drop(headers.insert(name, value)),
            None => tracing::warn!(header = name, "ignored: OTEL_EXPORTER_OTLP_HEADERS is malformed there"),
        }
    }
    for (name, secret) in &telemetry.headers {
        let (name, value) = header(name, secret.expose())
            .ok_or(format!("telemetry.headers.{name}: not a valid header name or value"))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::try_from(name).ok()?;
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

fn millis(written: Option<String>) -> Option<Duration> {
    written.and_then(|v| v.trim().parse().ok()).filter(|ms| *ms > 0).map(Duration::from_millis)
}

fn resource(telemetry: &Telemetry, env: Env<'_>) -> Vec<(String, String)> {
    let mut listed: Vec<_> = pairs(&env("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()).collect();
    let inherited = listed.iter().position(|(key, _)| key == "service.name").map(|at| listed.remove(at).1);
    let name = telemetry.service_name.clone().or_else(|| env("OTEL_SERVICE_NAME")).or(inherited);
    let mut all = vec![("service.name".to_owned(), name.unwrap_or_else(|| "smartgate".to_owned()))];
    all.append(&mut listed);
    all
}

/// `key=value,key=value` with percent-encoded values; what is not a pair is skipped.
fn pairs(listed: &str) -> impl Iterator<Item = (String, String)> {
    listed.split(',').filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let key = key.trim();
        (!key.is_empty()).then(|| (key.to_owned(), percent_decoded(value.trim())))
    })
}

fn percent_decoded(value: &str) -> String {
    percent_decode_str(value).decode_utf8().map_or_else(|_| value.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::config::Secret;

    fn file(otlp: Option<&str>) -> Telemetry {
        Telemetry {
            otlp: otlp.map(Into::into),
            protocol: None,
            headers: BTreeMap::new(),
            service_name: None,
            metrics: true,
            logs: true,
        }
    }

    fn exports(telemetry: &Telemetry, vars: &[(&str, &str)]) -> Result<Option<Exports>, String> {
        let vars: HashMap<_, _> = vars.iter().copied().collect();
        Exports::from(telemetry, &|name| vars.get(name).map(ToString::to_string))
    }

    fn resolve(telemetry: &Telemetry, vars: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        exports(telemetry, vars).map(|all| all.and_then(|all| all.traces))
    }

    /// Where each signal goes.
    fn urls(telemetry: &Telemetry, vars: &[(&str, &str)]) -> [String; 3] {
        let all = exports(telemetry, vars).unwrap().unwrap();
        [all.traces, all.metrics, all.logs].map(|s| s.map_or_else(String::new, |s| s.url.to_string()))
    }

    fn url(telemetry: &Telemetry, vars: &[(&str, &str)]) -> String {
        resolve(telemetry, vars).unwrap().unwrap().url.to_string()
    }

    #[test]
    fn nobody_names_a_collector() {
        assert!(resolve(&file(None), &[]).unwrap().is_none());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
        assert!(exports(&file(None), &[endpoint, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
        assert!(resolve(&file(None), &[endpoint, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().is_none());
    }

    #[test]
    fn the_environment_yields_to_the_file() {
        let vars = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env:4318"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,b=x%20y"),
            ("OTEL_SERVICE_NAME", "env"),
            ("OTEL_SDK_DISABLED", "true"),
        ];
        let mut telemetry = file(Some("http://file:4317"));
        telemetry.protocol = Some(OtlpProtocol::Grpc);
        telemetry.service_name = Some("file".into());
        telemetry.headers = [("A".to_owned(), Secret::new("2"))].into();
        let settings = resolve(&telemetry, &vars).unwrap().unwrap();
        assert_eq!(settings.url.to_string(), format!("http://file:4317{}", Signal::Traces.grpc_path()));
        assert_eq!(settings.resource, [("service.name".to_owned(), "file".to_owned())]);
        assert_eq!(settings.headers["a"], "2");
        assert_eq!(settings.headers["b"], "x y");
        assert!(!format!("{settings:?}").contains("x y"));
    }

    #[test]
    fn paths_follow_protocol_and_variable() {
        let every =
            |v| vec![("OTEL_EXPORTER_OTLP_ENDPOINT", v), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")];
        assert_eq!(url(&file(None), &every("http://c:9/base/")), "http://c:9/base/v1/traces");
        assert_eq!(url(&file(None), &every("https://c/v1/traces")), "https://c/v1/traces");
        let traces = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/own")];
        assert_eq!(url(&file(None), &traces), "http://c:4318/own");
        assert_eq!(url(&file(Some("http://c:4318")), &[]), "http://c:4318/v1/traces");
        assert_eq!(
            url(&file(Some("collector:4317")), &[]),
            format!("http://collector:4317{}", Signal::Traces.grpc_path())
        );
    }

    #[test]
    fn each_signal_has_its_own_way() {
        let http = |host: &str| Signal::ALL.map(|s| format!("http://{host}{}", s.http_path()));
        let grpc = |host: &str| Signal::ALL.map(|s| format!("http://{host}{}", s.grpc_path()));
        assert_eq!(urls(&file(Some("http://c:4318")), &[]), http("c:4318"));
        assert_eq!(urls(&file(Some("http://c:4318/v1/traces")), &[]), http("c:4318"));
        assert_eq!(urls(&file(Some("http://c:4317")), &[]), grpc("c:4317"));
        let every = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
        let vars = [
            every,
            ("OTEL_METRICS_EXPORTER", "none"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://l:4318/x"),
        ];
        let [traces, ..] = grpc("c:4317");
        assert_eq!(urls(&file(None), &vars), [traces.clone(), String::new(), "http://l:4318/x".to_owned()]);
        let only = Telemetry { metrics: false, logs: false, ..file(None) };
        assert_eq!(urls(&only, &[every]), [traces, String::new(), String::new()]);
        let vars = [every, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRIC_EXPORT_INTERVAL", "1500")];
        let all = exports(&file(None), &vars).unwrap().unwrap();
        assert!(all.traces.is_none() && all.metrics.is_some());
        assert_eq!(all.interval, Duration::from_millis(1_500));
    }

    #[test]
    fn resource_attributes_are_decoded() {
        let vars = [("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=a%2Cb, service.name=from-list,bad")];
        let settings = resolve(&file(Some("http://c:4317")), &vars).unwrap().unwrap();
        let expected = [("service.name", "from-list"), ("deployment.environment", "a,b")];
        assert_eq!(settings.resource, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    #[test]
    fn wrong_settings_are_named_without_secrets() {
        assert_eq!(
            resolve(&file(Some("ftp://x")), &[]).unwrap_err(),
            "telemetry.otlp: not an http or https URL"
        );
        let mut telemetry = file(Some("http://c:4317"));
        telemetry.headers = [("key".to_owned(), Secret::new("se\ncret"))].into();
        let message = resolve(&telemetry, &[]).unwrap_err();
        assert!(message.contains("telemetry.headers.key") && !message.contains("cret"));
        let json = [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")];
        assert!(resolve(&file(Some("http://c:4317")), &json).unwrap_err().contains("not in this version"));
    }

    #[test]
    fn timeouts_are_milliseconds() {
        let get = |v| {
            resolve(&file(Some("http://c")), &[("OTEL_EXPORTER_OTLP_TIMEOUT", v)]).unwrap().unwrap().timeout
        };
        assert_eq!(get("250"), Duration::from_millis(250));
        assert_eq!(get("soon"), TIMEOUT);
    }
}
