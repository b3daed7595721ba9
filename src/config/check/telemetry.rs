//! `[telemetry]`: where spans go.

use super::{Checker, upstreams::url};
use crate::config::{
    OtlpProtocol, Telemetry,
    file::{self},
    text::At,
};

impl Checker<'_> {
    pub(super) fn telemetry(&mut self, telemetry: file::Telemetry) -> Telemetry {
        let otlp = telemetry.otlp.as_ref();
        self.not_exported(
            "metrics",
            telemetry.metrics.as_ref(),
            "they are at /metrics of the admin listener",
        );
        self.not_exported("logs", telemetry.logs.as_ref(), "they go to stderr");
        Telemetry {
            otlp: otlp.and_then(|o| self.parsed("telemetry.otlp", o, |t| url(t).map(|_| t.to_owned()))),
            protocol: telemetry.protocol.map(|p| match p.value {
                file::OtlpProtocol::Grpc => OtlpProtocol::Grpc,
                file::OtlpProtocol::HttpProtobuf => OtlpProtocol::HttpProtobuf,
            }),
            headers: self.headers("telemetry.headers", telemetry.headers),
            service_name: telemetry.service_name.and_then(|name| {
                let named = self.parsed("telemetry.service_name", &name, crate::config::key_name);
                named.map(|()| name.value)
            }),
        }
    }

    fn not_exported(&mut self, what: &str, written: Option<&At<bool>>, instead: &str) {
        if let Some(written) = written.filter(|w| w.value) {
            let message = format!("`telemetry.{what}`: {what} over OTLP are not in this version; {instead}");
            self.findings.warn(written.at, message);
        }
    }
}
