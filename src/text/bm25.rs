//! BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009) for a query that is known before the
//! documents, so that only its own terms are counted. The same counts serve two levels: what several documents hold
//! can be added up and scored as one.

const K1: f64 = 1.2;
/// Less than the usual 0.75: sentences are all short, and a long one is no worse for it. Measured on XQuAD.
const B: f64 = 0.4;

/// Documents, and how often each has the terms of the query.
#[derive(Debug, Clone)]
pub struct Counts {
    /// What each term of the query weighs.
    terms: Vec<f64>,
    lengths: Vec<u32>,
    /// One row of `terms` for each document.
    hits: Vec<u32>,
}

impl Counts {
    /// `documents` empty ones, for a query whose terms weigh `terms`.
    #[must_use]
    pub fn new(documents: usize, terms: &[f64]) -> Self {
        Self { terms: terms.to_vec(), lengths: vec![0; documents], hits: vec![0; documents * terms.len()] }
    }

    /// Counts one term of a document; those from `terms` on are not of the query.
    pub fn count(&mut self, document: usize, term: usize) {
        self.lengths[document] += 1;
        if term < self.terms.len() {
            self.hits[document * self.terms.len() + term] += 1;
        }
    }

    /// Adds what document `from` of `other` holds to `document`.
    pub fn add(&mut self, document: usize, other: &Self, from: usize) {
        self.lengths[document] += other.lengths[from];
        let terms = self.terms.len();
        let row = &mut self.hits[document * terms..][..terms];
        for (sum, hits) in row.iter_mut().zip(other.row(from)) {
            *sum += hits;
        }
    }

    fn row(&self, document: usize) -> &[u32] {
        &self.hits[document * self.terms.len()..][..self.terms.len()]
    }

    /// The score of each document: 0 without a term of the query.
    #[must_use]
    pub fn scores(&self) -> Vec<f64> {
        let documents = self.lengths.len();
        let mean = f64::from(self.lengths.iter().sum::<u32>()) / documents.max(1) as f64;
        let weights = self.weights();
        let score = |document: usize| {
            let norm = K1 * (1.0 - B + B * f64::from(self.lengths[document]) / mean);
            let parts = self.row(document).iter().zip(&weights).filter(|(hits, _)| **hits > 0);
            parts.map(|(hits, idf)| idf * f64::from(*hits) * (K1 + 1.0) / (f64::from(*hits) + norm)).sum()
        };
        (0..documents).map(score).collect()
    }

    /// What each term weighs, by its inverse document frequency in the form that is never negative.
    fn weights(&self) -> Vec<f64> {
        let documents = self.lengths.len() as f64;
        let weight = |term: usize| {
            let with = self.hits.iter().skip(term).step_by(self.terms.len()).filter(|hits| **hits > 0).count()
                as f64;
            self.terms[term] * (1.0 + (documents - with + 0.5) / (with + 0.5)).ln()
        };
        (0..self.terms.len()).map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_terms_short_documents_and_repetition_count() {
        // Term 0 is in one document, term 1 in three; 9 is not of the query.
        let mut counts = Counts::new(5, &[1.0, 1.0]);
        for (document, terms) in
            [vec![0, 9], vec![1, 9], vec![1, 1], vec![1, 9, 9, 9], vec![9]].iter().enumerate()
        {
            terms.iter().for_each(|term| counts.count(document, *term));
        }
        let scores = counts.scores();
        assert!(scores[0] > scores[2] && scores[2] > scores[1] && scores[1] > scores[3], "{scores:?}");
        assert_eq!(scores[4], 0.0);
    }

    #[test]
    fn sums_are_scored_as_one_document() {
        let mut parts = Counts::new(2, &[1.0]);
        parts.count(0, 0);
        parts.count(1, 7);
        let mut sum = Counts::new(1, &[1.0]);
        sum.add(0, &parts, 0);
        sum.add(0, &parts, 1);
        let mut whole = Counts::new(1, &[1.0]);
        whole.count(0, 0);
        whole.count(0, 7);
        assert_eq!(sum.scores(), whole.scores());
        assert!(Counts::new(0, &[]).scores().is_empty());
    }
}
