//! Runs scenarios by name, and prints their rows.
#![expect(clippy::print_stdout, reason = "the rows are what the program is run for")]

use tollgate_faults::{Result, SCENARIOS};

#[tokio::main]
async fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for scenario in SCENARIOS {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == scenario.name) {
            continue;
        }
        println!("{}: {}", scenario.name, scenario.about);
        for row in (scenario.run)().await? {
            println!("  {row}");
        }
    }
    Ok(())
}
