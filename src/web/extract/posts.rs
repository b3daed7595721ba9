//! Whether what was taken for the article is one of several posts alike, as in a forum or on the front page of a
//! journal: then the page is what was asked for, and the article a part of it.

use dom_query::{Document as Dom, NodeRef};

/// Of the article's text, this much finds it in the page, in characters.
const MARK: usize = 60;
/// Siblings with less than this part of the post's text are captions and teasers.
const PART: usize = 4;
/// So many posts make a thread.
const POSTS: usize = 3;

/// Whether three or more siblings of the same kind and about the same size, of which one has the beginning of the
/// article, say half as much again as the article does. Both texts are compared without white space.
pub(super) fn are_many(page: &Dom, article: &str) -> bool {
    let article = squashed(article);
    let mark = &article[..article.char_indices().nth(MARK).map_or(article.len(), |(at, _)| at)];
    let Some(mut parent) = page.body().filter(|_| !mark.is_empty()) else { return false };
    loop {
        let children = parent.element_children();
        if let [only] = children[..] {
            parent = only;
            continue;
        }
        let texts: Vec<String> = children.iter().map(|child| squashed(&child.text())).collect();
        let Some(at) = texts.iter().position(|text| text.contains(mark)) else { return false };
        parent = children[at];
        if parent.has_name("p") {
            return false;
        }
        let size = |text: &String| text.chars().count();
        let own = size(&texts[at]);
        let alike = children.iter().zip(&texts).filter(|(child, _)| is_like(child, &parent));
        let sizes: Vec<usize> = alike.map(|(_, text)| size(text)).filter(|n| n * PART >= own).collect();
        if sizes.len() >= POSTS && sizes.iter().sum::<usize>() * 2 > size(&article) * 3 {
            return true;
        }
    }
}

fn is_like(a: &NodeRef<'_>, b: &NodeRef<'_>) -> bool {
    a.node_name() == b.node_name() && a.attr("class") == b.attr("class")
}

fn squashed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}
