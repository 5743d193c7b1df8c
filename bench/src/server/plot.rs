//! The plot: CPU per decision of every server, a panel per protocol. Readable on light and on dark
//! pages.

use std::fmt::Write as _;

use super::main_cells::Compared;
use super::table::Figure;
use super::target::Target;

const WIDTH: f64 = 760.0;
/// Where bars begin, and how long the longest is.
const LEFT: f64 = 270.0;
const LONGEST: f64 = 370.0;
const BAR: f64 = 18.0;
const STEP: f64 = 24.0;
const HEAD: f64 = 34.0;
const TOP: f64 = 46.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}\
.title{font-weight:600;font-size:15px}.group{font-weight:600}.range{stroke:#1f2328}\
.ours{fill:#0969da}.other{fill:#8c959f}.floor{fill:#d0d7de}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.range{stroke:#e6edf3}\
.ours{fill:#4493f8}.other{fill:#6e7681}.floor{fill:#3d444d}}";

/// The plot of what was compared.
pub(super) fn svg(compared: &[Compared]) -> String {
    let mut body = String::new();
    let mut y = TOP;
    for group in compared {
        let figures: Vec<(Target, [f64; 3])> = group
            .rows
            .iter()
            .map(|(target, samples)| {
                (*target, Figure::of(samples.iter().map(|sample| sample.cpu)).parts())
            })
            .collect();
        let most = figures.iter().map(|(_, [.., most])| *most).fold(1e-9, f64::max);
        let title = escaped(group.group.title);
        let _ = writeln!(body, r#"<text class="group" x="12" y="{:.0}">{title}</text>"#, y + 14.0);
        y += HEAD - 10.0;
        for (target, figure) in figures {
            body.push_str(&bar(target, figure, (y, LONGEST / most)));
            y += STEP;
        }
        y += STEP / 2.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y:.0}\" role=\"img\" \
         aria-label=\"CPU per decision of each server\">\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"12\" y=\"24\">CPU of the server per decision, in microseconds \
         (less is better; line: range of the rounds)</text>\n{body}</svg>\n"
    )
}

fn bar(target: Target, [least, median, most]: [f64; 3], (y, scale): (f64, f64)) -> String {
    let class = match target {
        Target::Tollgate | Target::TollgateStream => "ours",
        Target::FloorThreads | Target::FloorCurrent => "floor",
        _ => "other",
    };
    let (text, middle) = (y + BAR - 4.0, y + BAR / 2.0);
    let [from, width, to] = [least, median, most].map(|micros| micros * scale);
    let title = escaped(&target.title().replace('`', ""));
    format!(
        "<text x=\"{:.0}\" y=\"{text:.1}\" text-anchor=\"end\">{title}</text>\
         <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>\
         <line class=\"range\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
         <text x=\"{:.1}\" y=\"{text:.1}\">{median:.2}</text>\n",
        LEFT - 8.0,
        LEFT + from,
        LEFT + to,
        LEFT + to.max(width) + 6.0,
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
