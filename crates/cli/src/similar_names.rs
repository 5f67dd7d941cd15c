//! Finds the names that a misspelt one may mean.

const SUGGESTIONS_MAX: usize = 3;

/// From 0 (nothing in common) to 1 (equal).
const SIMILARITY_MIN: f64 = 0.6;

/// The names that `wanted` may be a misspelling of, most similar first.
pub(crate) fn similar_names<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let similarity = |name: &str| strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase());
    let mut similar: Vec<(f64, &str)> = names.iter().map(|name| (similarity(name), *name)).collect();
    similar.retain(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    similar.into_iter().map(|(_, name)| name).take(SUGGESTIONS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_first_and_distant_ones_not_at_all() {
        let names = ["default", "gpu", "gpu-large", "nightly", "Nightly-2"];
        let cases = [
            ("defualt", vec!["default"]),
            ("nigthly", vec!["nightly", "Nightly-2"]),
            ("GPU", vec!["gpu"]),
            ("gpularge", vec!["gpu-large"]),
            ("something", vec![]),
        ];
        for (wanted, expected) in cases {
            assert_eq!(similar_names(wanted, &names), expected, "{wanted}");
        }
    }
}
