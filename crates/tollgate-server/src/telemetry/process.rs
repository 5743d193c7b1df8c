//! Gauges of the process: its version, its memory, and the state of its configuration.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::metrics::Registration;

/// What is said of the process.
#[derive(Debug, Default)]
pub(super) struct ProcessGauges {
    build: Family<[(&'static str, &'static str); 1], Gauge>,
    resident_bytes: Gauge,
    pub(super) missing_files: Gauge,
    pub(super) awaiting_restart: Gauge,
}

impl ProcessGauges {
    pub(super) fn register(&self, register: &mut Registration<'_>) {
        let Self { build, resident_bytes, missing_files, awaiting_restart } = self;
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        register.add("tollgate_build_info", "`version`", "Always 1", build);
        let help = "Memory of the process that is resident; 0 where the operating system does not \
                    tell";
        register.add("process_resident_memory_bytes", "", help, resident_bytes);
        let help = "Files of the configuration that cannot be read any more";
        register.add("tollgate_missing_files", "", help, missing_files);
        let help = "Settings that have changed since the start and need a restart";
        register.add("tollgate_settings_awaiting_restart", "", help, awaiting_restart);
    }

    pub(super) fn copy(&self) {
        set(&self.resident_bytes, resident_bytes().unwrap_or_default());
    }
}

/// Sets a gauge to a number of things.
pub(super) fn set(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// The memory of this process that is resident, on Linux.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024)
}
