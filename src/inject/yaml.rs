//! Kubernetes documents as text: several in one file, read into and written from JSON values.

use serde_json::Value;

/// The documents of a file; empty ones are left out.
///
/// # Errors
/// Where and why it is not YAML.
pub fn read(text: &str) -> Result<Vec<Value>, String> {
    // YAML 1.1, which Kubernetes reads: modes of files are written 0400.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|e| e.to_string())?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// One file of these documents.
///
/// # Errors
/// Never for what [`read`] has read.
pub fn write(documents: &[Value]) -> Result<String, String> {
    let texts: Result<Vec<_>, _> = documents.iter().map(serde_saphyr::to_string).collect();
    Ok(texts.map_err(|e| e.to_string())?.join("---\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_look_like_something_else_stay_texts() {
        // Kubernetes reads YAML 1.1, where on, off, yes, no and y are truth values, and 1_0 and 0x1F numbers.
        let words = [
            "on",
            "off",
            "yes",
            "no",
            "y",
            "n",
            "true",
            "null",
            "~",
            "1",
            "1e3",
            "012",
            "0x1F",
            "1_0",
            "1:30",
            "",
            " a",
            "a: b",
            "- c",
            "#",
            "a\nb\n",
            "=",
            "<<",
            ".5",
            "2001-01-01",
        ];
        let document =
            json!({ "words": words, "kept": {"off": "x", "n": 1, "f": 1.5, "b": true, "e": [], "m": {}} });
        let text = write(std::slice::from_ref(&document)).unwrap();
        assert_eq!(read(&text).unwrap(), [document], "{text}");
        for bare in [
            " on\n", " off\n", " yes\n", " no\n", " y\n", " n\n", " 012\n", " 1_0\n", " 1:30\n", "\noff:",
            "\n  off:",
        ] {
            assert!(!text.contains(bare), "{bare:?} in\n{text}");
        }
    }

    #[test]
    fn modes_of_files_are_octal() {
        let read = read("a: 0400\nb: 0644\nc: 0o400\nd: 400\ne: \"0400\"\n").unwrap();
        assert_eq!(read, [json!({"a": 256, "b": 420, "c": 256, "d": 400, "e": "0400"})]);
    }

    #[test]
    fn several_documents_stay_several() {
        let text = "---\na: 1\n---\n---\n# nothing\n---\nb: 2\n";
        let documents = read(text).unwrap();
        assert_eq!(documents, [json!({"a": 1}), json!({"b": 2})]);
        assert_eq!(read(&write(&documents).unwrap()).unwrap(), documents);
        assert!(read("a: [1").unwrap_err().contains("line"));
    }
}
