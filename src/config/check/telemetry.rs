//! `[telemetry]`: where spans, metrics and logs go.

use super::{Checker, upstreams::url};
use crate::config::{
    OtlpProtocol, Telemetry,
    file::{self},
};

impl Checker<'_> {
    pub(super) fn telemetry(&mut self, telemetry: file::Telemetry) -> Telemetry {
        let otlp = telemetry.otlp.as_ref();
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
            metrics: telemetry.metrics.is_none_or(|m| m.value),
            logs: telemetry.logs.is_none_or(|l| l.value),
        }
    }
}
