use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Fixed(Mutex<Vec<String>>);

impl Wants for &Fixed {
    fn id(&self) -> &[u8] {
        b"\"client\""
    }
    fn progress_token(&self) -> Option<&[u8]> {
        Some(b"\"tok\"")
    }
    fn seal(&self, state: &str) -> String {
        format!("<{}>", state.replace('"', "'"))
    }
    fn has_tasks(&self) -> bool {
        true
    }
    fn task(&self, own: &str) -> String {
        format!("task of {own}")
    }
    fn linked(&self, uri: &str) {
        self.0.lock().unwrap().push(uri.to_owned());
    }
}

fn rewritten(text: &str, events: bool, cut: usize) -> (String, Vec<String>) {
    let fixed = Fixed::default();
    let mut rewriter = Rewriter::new(&fixed, events);
    let mut out = Vec::new();
    text.as_bytes().chunks(cut).for_each(|chunk| rewriter.feed(chunk, &mut out).unwrap());
    drop(rewriter);
    (String::from_utf8(out).unwrap(), fixed.0.into_inner().unwrap())
}

const JSON: &str = r#"{ "jsonrpc":"2.0","result":{"id":5,"requestState":"a\"b","content":[{"type":"resource_link","uri":"x:\/1","id":1},{"resource":{"uri":"x:2"}}],"n":1.50},"\u0069d" : 7 }"#;

#[test]
fn ids_tokens_and_states_are_replaced_and_links_noted_however_it_is_cut() {
    let expected = r#"{ "jsonrpc":"2.0","result":{"id":5,"requestState":"<a'b>","content":[{"type":"resource_link","uri":"x:\/1","id":1},{"resource":{"uri":"x:2"}}],"n":1.50},"\u0069d" : "client" }"#;
    let sse = |json: &str, token: &str| {
        format!(
            ": hi\r\nid: 3\r\ndata: {{\"method\":\"notifications/progress\",\r\ndata:\"params\":{{\"progressToken\":{token},\"progress\":1}}}}\r\n\r\nevent: message\ndata: {json}\n\n"
        )
    };
    for cut in 1..40 {
        let (json, links) = rewritten(JSON, false, cut);
        assert_eq!(json, expected, "cut {cut}");
        assert_eq!(links, ["x:/1", "x:2"], "cut {cut}");
        let (events, _) = rewritten(&sse(JSON, "12"), true, cut);
        assert_eq!(events, sse(expected, "\"tok\""), "cut {cut}");
    }
}

#[test]
fn ids_of_tasks_are_replaced_where_they_stand_for_one() {
    let task = |id: &str| {
        format!(
            r#"{{"result":{{"taskId":{id},"resultType":"complete","result":{{"taskId":"9","content":[{{"uri":"x:1"}},{{"resource":{{"uri":"x:2","taskId":"9"}}}}]}}}},"id":7}}"#
        )
    };
    let told = |id: &str| {
        format!(
            "data: {{\"params\":{{\"taskId\":{id},\"status\":\"working\"}},\"method\":\"notifications/tasks\"}}\n\n"
        )
    };
    for cut in 1..40 {
        let (json, links) = rewritten(&task("\"a\\u0062\""), false, cut);
        assert_eq!(json, task("\"task of ab\"").replace("\"id\":7", "\"id\":\"client\""), "cut {cut}");
        assert_eq!(links, ["x:1", "x:2"], "cut {cut}");
        assert_eq!(rewritten(&told("\"1\""), true, cut).0, told("\"task of 1\""), "cut {cut}");
        assert_eq!(rewritten(&told("1"), true, cut).0, told("1"), "no text, no id");
    }
}

#[test]
fn what_is_no_json_passes() {
    assert_eq!(rewritten("<html>", false, 2).0, "<html>");
    assert_eq!(rewritten("{\"id\":x}", false, 100).0, "{\"id\":x}");
    assert_eq!(
        rewritten("data: x\n\ndata: {\"id\":1}\n\n", true, 3).0,
        "data: x\n\ndata: {\"id\":\"client\"}\n\n"
    );
}

#[test]
fn a_state_or_task_beyond_the_limit_is_refused_also_in_one_piece() {
    let fixed = Fixed::default();
    let mut rewriter = Rewriter::new(&fixed, false);
    let text = format!(r#"{{"result":{{"requestState":"{}"#, "x".repeat(MAX_STATE + 10));
    assert!(text.as_bytes().chunks(1000).any(|c| rewriter.feed(c, &mut Vec::new()).is_err()));
    for (member, most) in [("requestState", MAX_STATE), ("taskId", MAX_TASK)] {
        let whole = format!(r#"{{"result":{{"{member}":"{}","x":1}},"id":1}}"#, "x".repeat(most));
        assert!(Rewriter::new(&fixed, false).feed(whole.as_bytes(), &mut Vec::new()).is_err(), "{member}");
    }
}

proptest! {
    #[test]
    fn cuts_make_no_difference(text in "[ -~\n\r]{0,200}", events: bool, cut in 1_usize..50) {
        prop_assert_eq!(rewritten(&text, events, cut), rewritten(&text, events, usize::MAX));
    }
}
