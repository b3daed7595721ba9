//! Where spans go: `[telemetry]` of the file first, then the standard `OTEL_*` environment variables
//! (OpenTelemetry specification, "OTLP exporter configuration"). Owns that order of precedence and nothing of
//! the sending. Invariant: header values are secrets and never part of a message.

use std::{path::PathBuf, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, uri::PathAndQuery};

use crate::config::{OtlpProtocol, Telemetry};

const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const HTTP_PATH: &str = "/v1/traces";
/// The specification's default for one export.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The port that belongs to HTTP where nobody names a protocol.
const HTTP_PORT: u16 = 4318;

/// Everything the exporter needs to know.
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

impl Settings {
    /// From the file and the process's environment; `None` where nobody names a collector.
    ///
    /// # Errors
    /// What is wrong with which setting.
    pub(super) fn resolve(telemetry: &Telemetry) -> Result<Option<Self>, String> {
        Self::from(telemetry, &|name| std::env::var(name).ok().filter(|v| !v.trim().is_empty()))
    }

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

    fn from(telemetry: &Telemetry, env: Env<'_>) -> Result<Option<Self>, String> {
        let Some((place, address, whole)) = endpoint(telemetry, env) else { return Ok(None) };
        warn_of_ignored(env);
        let base = parse(&address).ok_or(format!("{place}: not an http or https URL"))?;
        let protocol = match telemetry.protocol {
            Some(protocol) => protocol,
            None => protocol(env, &base)?,
        };
        Ok(Some(Self {
            url: with_path(base, protocol, whole),
            protocol,
            headers: headers(telemetry, env)?,
            timeout: timeout(env),
            ca: either(env, "CERTIFICATE").map(PathBuf::from),
            resource: resource(telemetry, env),
        }))
    }
}

/// The variable for traces, else the one for every signal.
fn either(env: Env<'_>, suffix: &str) -> Option<String> {
    env(&format!("OTEL_EXPORTER_OTLP_TRACES_{suffix}"))
        .or_else(|| env(&format!("OTEL_EXPORTER_OTLP_{suffix}")))
}

/// Who names the collector, its address, and whether that is already the whole URL.
fn endpoint(telemetry: &Telemetry, env: Env<'_>) -> Option<(&'static str, String, bool)> {
    if let Some(otlp) = &telemetry.otlp {
        return Some(("telemetry.otlp", otlp.clone(), false));
    }
    let is = |name: &str, value: &str| env(name).is_some_and(|v| v.eq_ignore_ascii_case(value));
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return None;
    }
    let traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let every = "OTEL_EXPORTER_OTLP_ENDPOINT";
    env(traces).map(|v| (traces, v, true)).or_else(|| env(every).map(|v| (every, v, false)))
}

fn warn_of_ignored(env: Env<'_>) {
    for name in ["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"] {
        if env(name).is_some() {
            tracing::warn!(variable = name, "ignored: audit spans are never sampled out");
        }
    }
    if either(env, "COMPRESSION").is_some_and(|v| v != "none") {
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

fn protocol(env: Env<'_>, base: &Uri) -> Result<OtlpProtocol, String> {
    match either(env, "PROTOCOL").as_deref() {
        None if base.port_u16() == Some(HTTP_PORT) => Ok(OtlpProtocol::HttpProtobuf),
        None | Some("grpc") => Ok(OtlpProtocol::Grpc),
        Some("http/protobuf") => Ok(OtlpProtocol::HttpProtobuf),
        Some(other) => Err(format!("OTEL_EXPORTER_OTLP_PROTOCOL: {other:?} is not in this version")),
    }
}

/// gRPC has one path. Over HTTP the signal's path is appended, unless it is there or the variable for traces
/// gave the URL to be used as it is.
fn with_path(base: Uri, protocol: OtlpProtocol, whole: bool) -> Uri {
    let written = base.path().trim_end_matches('/');
    let path = match protocol {
        OtlpProtocol::Grpc => GRPC_PATH.to_owned(),
        OtlpProtocol::HttpProtobuf if whole || written.ends_with(HTTP_PATH) => base.path().to_owned(),
        OtlpProtocol::HttpProtobuf => format!("{written}{HTTP_PATH}"),
    };
    let mut parts = base.into_parts();
    parts.path_and_query = PathAndQuery::try_from(path).ok();
    Uri::from_parts(parts).expect("scheme, host and path make a URL")
}

fn headers(telemetry: &Telemetry, env: Env<'_>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let listed = either(env, "HEADERS").unwrap_or_default();
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

fn timeout(env: Env<'_>) -> Duration {
    let written = either(env, "TIMEOUT").and_then(|v| v.trim().parse().ok());
    written.filter(|ms| *ms > 0).map_or(TIMEOUT, Duration::from_millis)
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
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let escaped = digits.filter(|d| first == b'%' && d.bytes().all(|b| b.is_ascii_hexdigit()));
        match escaped.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::config::Secret;

    fn file(otlp: Option<&str>) -> Telemetry {
        Telemetry { otlp: otlp.map(Into::into), protocol: None, headers: BTreeMap::new(), service_name: None }
    }

    fn resolve(telemetry: &Telemetry, vars: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let vars: HashMap<_, _> = vars.iter().copied().collect();
        Settings::from(telemetry, &|name| vars.get(name).map(ToString::to_string))
    }

    fn url(telemetry: &Telemetry, vars: &[(&str, &str)]) -> String {
        resolve(telemetry, vars).unwrap().unwrap().url.to_string()
    }

    #[test]
    fn nobody_names_a_collector() {
        assert!(resolve(&file(None), &[]).unwrap().is_none());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
        assert!(resolve(&file(None), &[endpoint, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
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
        assert_eq!(settings.url.to_string(), format!("http://file:4317{GRPC_PATH}"));
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
        assert_eq!(url(&file(Some("collector:4317")), &[]), format!("http://collector:4317{GRPC_PATH}"));
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
