//! The only way from HTML to a tree. Owns the parse: html5ever, the parser that the extractors use, builds the tree
//! that they get, and stops where a limit is passed. So there is nothing to guess: what is measured is the tree itself.
//!
//! Invariant: whoever works on a page gets a tree from here, and never has the page parsed again.

mod measure;
mod sink;
#[cfg(test)]
pub(super) mod tests;

use std::time::{Duration, Instant};

use dom_query::{Document as Dom, NodeId};
use html5ever::{
    TokenizerResult,
    buffer_queue::BufferQueue,
    tendril::StrTendril,
    tokenizer::{Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts},
    tree_builder::{TreeBuilder, TreeBuilderOpts, TreeSink},
};

use self::sink::Sink;

/// Real pages are nowhere near (over 311 of them at most depth 51, 70 attributes, 9,888 tags).
const MAX_DEPTH: usize = 256;
const MAX_ATTRIBUTES: usize = 128;
/// Elements, those included that the parser repeats.
const MAX_ELEMENTS: usize = 100_000;
/// Nodes of every kind.
const MAX_NODES: usize = 250_000;
const MAX_BYTES: usize = 5 * 1024 * 1024;
/// What all attributes take, in bytes. The parser repeats elements with their attributes, so that these can be many
/// times the size of the page.
const MAX_ATTRIBUTE_BYTES: usize = 2 * MAX_BYTES;
/// Bytes given to the tokenizer at once. Within a tag it compares each attribute with all before it, and cannot be
/// stopped.
const CHUNK: usize = 4 * 1024;
/// Real pages take some milliseconds.
const LIMIT: Duration = Duration::from_secs(2);

/// The tree of a document that is within all limits. `address`: the length of the URL that its links are relative to.
pub(super) fn parse(html: &str, address: usize) -> Option<Dom> {
    if html.len() > MAX_BYTES {
        return None;
    }
    let until = Instant::now() + LIMIT;
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let tokens = Tokens { builder: TreeBuilder::new(Sink::default(), options), until };
    let tokenizer = Tokenizer::new(tokens, TokenizerOpts::default());
    let input = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK));
        rest = after;
        input.push_back(StrTendril::from_slice(chunk));
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        tokenizer.sink.check_time();
        if tokenizer.sink.sink().is_stopped() {
            return None;
        }
    }
    tokenizer.end();
    if tokenizer.sink.sink().is_stopped() {
        return None;
    }
    let dom = tokenizer.sink.builder.sink.finish();
    measure::is_harmless(&dom, address).then_some(dom)
}

/// Between the tokenizer and the tree builder: lets nothing through once the document is refused.
struct Tokens {
    builder: TreeBuilder<NodeId, Sink>,
    until: Instant,
}

impl Tokens {
    fn sink(&self) -> &Sink {
        &self.builder.sink
    }

    fn check_time(&self) {
        if Instant::now() > self.until {
            self.sink().stop();
        }
    }
}

impl TokenSink for Tokens {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<NodeId> {
        if let Token::TagToken(tag) = &token {
            if tag.attrs.len() > MAX_ATTRIBUTES {
                self.sink().stop();
            }
            // A tag can cost as much as there are open elements, and one that ends formatting as much as all in it.
            self.check_time();
        }
        if self.sink().is_stopped() {
            return TokenSinkResult::Continue;
        }
        self.builder.process_token(token, line)
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}
