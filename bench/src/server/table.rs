//! The figures of cells as tables: medians, and the range over the rounds.

use super::bed::Sample;
use crate::measure::Pick;
use crate::report::Markdown;

/// A median and its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) median: f64,
    least: f64,
    most: f64,
}

impl Figure {
    /// Of the rounds.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { median: Pick::Median.of(values), least, most }
    }

    /// The least, the median and the most.
    pub(super) const fn parts(self) -> [f64; 3] {
        [self.least, self.median, self.most]
    }

    /// `9.3 (9.1–9.8)`.
    pub(super) fn text(self) -> String {
        let Self { median, least, most } = self;
        let digits = if median < 0.1 {
            3
        } else if median < 10.0 {
            2
        } else {
            1
        };
        format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
    }

    /// `123,456 (120,000–125,000)`.
    pub(super) fn whole(self) -> String {
        let [median, least, most] = [self.median, self.least, self.most].map(grouped);
        format!("{median} ({least}–{most})")
    }
}

/// A number with commas.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Mebibytes of bytes.
pub(super) fn mebibytes(bytes: f64) -> String {
    format!("{:.0}", bytes / f64::from(1 << 20))
}

/// A row of a comparison: its name, and its rounds.
pub(super) type Row = (String, Vec<Sample>);

/// The table of a comparison. Ratios are to the row at `base`.
pub(super) fn compared(what: &'static str, rows: &[Row], base: usize) -> String {
    let mut table = Markdown::new(&[what]);
    let columns =
        ["decisions/s", "× Tollgate", "CPU µs per decision", "× Tollgate", "resident MiB"];
    columns.into_iter().for_each(|column| table.column(column));
    let mut text = table.head();
    let base = rows.get(base).map(|(_, samples)| samples.as_slice()).unwrap_or_default();
    for (title, samples) in rows {
        // Ratios of rounds, so that what disturbs a round disturbs both.
        let ratio = |of: fn(&Sample) -> f64| {
            let pairs = samples.iter().zip(base);
            let ratios = pairs.map(|(one, base)| of(one) / of(base)).collect();
            format!("{:.2}", Pick::Median.of(ratios))
        };
        let figure = |of: fn(&Sample) -> f64| Figure::of(samples.iter().map(of));
        text += &table.row(&[
            title.clone(),
            figure(|sample| sample.per_second).whole(),
            ratio(|sample| sample.per_second),
            figure(|sample| sample.cpu).text(),
            ratio(|sample| sample.cpu),
            mebibytes(figure(|sample| sample.resident).median),
        ]);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_and_its_range() {
        assert_eq!(Figure::of([3.0, 1.0, 2.0]).text(), "2.00 (1.00–3.00)");
        assert_eq!(Figure::of([1_234_567.0]).whole(), "1,234,567 (1,234,567–1,234,567)");
        assert_eq!(grouped(100.0), "100");
    }
}
