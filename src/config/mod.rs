//! `hedgerow.toml`: the only place that knows key names.

pub mod settings;

pub use settings::Settings;
