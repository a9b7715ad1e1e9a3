//! The log of the service, as text or JSON on standard error, and traces to a collector where one is set.
//!
//! Called once by `serve`. Other commands have a log of their own, for people.

use std::io::IsTerminal as _;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::server::{LogFormat, TelemetrySection};

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// What is to be logged makes no sense.
    #[error("telemetry.log is not a filter: {message}\nhint: use a level such as info")]
    Filter {
        /// Why.
        message: String,
    },
    /// Traces cannot be sent.
    #[error("traces cannot be sent to {endpoint}: {message}\nhint: check telemetry.otlp_endpoint")]
    Traces {
        /// Where to.
        endpoint: String,
        /// Why.
        message: String,
    },
    /// Somebody was first.
    #[error("there is a log already")]
    Twice,
}

type BoxLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The log, while it is kept. Dropping it sends the traces that wait.
pub struct Logging {
    #[cfg(feature = "otlp")]
    traces: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

impl Logging {
    /// Makes the log of this process. Inside a runtime, which carries the traces.
    ///
    /// # Errors
    /// When a setting makes no sense, or there is a log already.
    pub fn init(settings: &TelemetrySection) -> Result<Self, LoggingError> {
        let (layers, logging) = Self::layers(settings)?;
        let subscriber = tracing_subscriber::registry().with(layers);
        tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Twice)?;
        Ok(logging)
    }

    fn layers(settings: &TelemetrySection) -> Result<(Vec<BoxLayer>, Self), LoggingError> {
        let filter = EnvFilter::try_new(&settings.log)
            .map_err(|error| LoggingError::Filter { message: error.to_string() })?;
        let layers = vec![log(settings.log_format, std::io::stderr).with_filter(filter).boxed()];
        #[cfg(feature = "otlp")]
        {
            let traces = settings.otlp_endpoint.as_deref().map(traces::to).transpose()?;
            let layers = layers.into_iter().chain(traces.as_ref().map(traces::layer)).collect();
            Ok((layers, Self { traces }))
        }
        #[cfg(not(feature = "otlp"))]
        match &settings.otlp_endpoint {
            None => Ok((layers, Self {})),
            Some(endpoint) => Err(LoggingError::Traces {
                endpoint: endpoint.clone(),
                message: "this program was built without the feature otlp".to_owned(),
            }),
        }
    }
}

/// The lines. Spans are in them, so a line tells its sandbox and execution.
fn log<W>(format: LogFormat, writer: W) -> BoxLayer
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let colour =
        std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => lines.with_ansi(colour).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_ansi(false).boxed(),
    }
}

#[cfg(feature = "otlp")]
mod traces {
    //! Spans as OTLP over gRPC, by the exporter's own client.

    use std::time::Duration;

    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::filter::Targets;

    use super::{BoxLayer, LoggingError};

    /// How long the end waits for traces that were not sent yet.
    pub const FLUSH: Duration = Duration::from_secs(3);

    pub fn to(endpoint: &str) -> Result<SdkTracerProvider, LoggingError> {
        let failed = |message: String| LoggingError::Traces { endpoint: endpoint.to_owned(), message };
        // The exporter's client wants a runtime and panics without one.
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(failed("there is no runtime".to_owned()));
        }
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let resource = Resource::builder().with_service_name("rekindle").build();
        Ok(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
    }

    pub fn layer(provider: &SdkTracerProvider) -> BoxLayer {
        // Our own spans alone: those of the exporter's client would be traces about sending traces.
        let ours = Targets::new().with_target("rekindle", LevelFilter::DEBUG);
        tracing_opentelemetry::layer().with_tracer(provider.tracer("rekindle")).with_filter(ours).boxed()
    }
}

#[cfg(feature = "otlp")]
impl Drop for Logging {
    fn drop(&mut self) {
        if let Some(provider) = self.traces.take()
            && let Err(error) = provider.shutdown_with_timeout(traces::FLUSH)
        {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

#[cfg(all(test, feature = "otlp"))]
pub(crate) mod collector;
#[cfg(test)]
pub(crate) mod lines;
#[cfg(test)]
mod tests;
