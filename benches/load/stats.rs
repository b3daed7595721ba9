//! Order statistics over a handful of rounds. Medians, because a neighbour on the machine spoils means.

/// The value below which `share` (0 to 1) of the samples lie; NaN for no samples.
pub(crate) fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The middle sample.
pub(crate) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The median over rounds of `a / b`, each ratio taken within one round.
pub(crate) fn ratio(a: &[f64], b: &[f64]) -> f64 {
    median(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>())
}

/// The median over rounds of `a - b`, each difference taken within one round.
pub(crate) fn difference(a: &[f64], b: &[f64]) -> f64 {
    median(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>())
}
